//! One line for each request, when it is over: id, model, tokens, times, outcome. No text of anybody unless asked for.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use crate::config::{LogConfig, LogContent, LogFormat};
use crate::generate::Summary;
use crate::openai::ms;

/// Where lines go.
#[derive(Clone)]
pub struct Log {
    config: LogConfig,
    out: Arc<Mutex<dyn Write + Send>>,
}

impl Log {
    /// Writes to `out`.
    pub fn new(config: LogConfig, out: impl Write + Send + 'static) -> Log {
        Log { config, out: Arc::new(Mutex::new(out)) }
    }

    /// Writes a line on something that is no request.
    pub fn event(&self, event: &str, message: &str) {
        let fields = [("event".to_owned(), event.into()), ("message".to_owned(), message.into())];
        self.write(&Map::from_iter(fields));
    }

    pub(crate) fn shows_requests(&self) -> bool {
        self.config.content == LogContent::Requests
    }

    fn write(&self, fields: &Map<String, Value>) {
        let line = match self.config.format {
            LogFormat::Json => {
                let mut all = Map::from_iter([("time_unix_ms".to_owned(), unix_ms().into())]);
                all.extend(fields.clone());
                Value::from(all).to_string()
            }
            LogFormat::Text => {
                let word = |(key, value): (&String, &Value)| match value {
                    Value::String(text) if !text.contains([' ', '"', '\n']) => format!("{key}={text}"),
                    other => format!("{key}={other}"),
                };
                fields.iter().map(word).collect::<Vec<_>>().join(" ")
            }
        };
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that cannot be written must not stop the server.
        let _ = writeln!(out, "{line}");
    }
}

fn unix_ms() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}

/// What is known of one request.
#[derive(Clone)]
pub(crate) struct Record(Arc<Mutex<Facts>>);

struct Facts {
    began: Instant,
    fields: Map<String, Value>,
    summary: Option<Summary>,
    failure: Option<String>,
    is_written: bool,
}

impl Record {
    /// A request that has just come.
    pub(crate) fn new(id: &str, method: &str, path: &str) -> Record {
        let path: String = path.chars().take(200).collect();
        let fields = [("id", id), ("method", method), ("path", &path)].map(|(key, text)| (key.to_owned(), text.into()));
        let fields = Map::from_iter(fields);
        Record(Arc::new(Mutex::new(Facts {
            began: Instant::now(),
            fields,
            summary: None,
            failure: None,
            is_written: false,
        })))
    }

    /// The request's id.
    pub(crate) fn id(&self) -> String {
        self.facts(|facts| facts.fields["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Adds a fact.
    pub(crate) fn set(&self, key: &str, value: impl Into<Value>) {
        self.facts(|facts| facts.fields.insert(key.to_owned(), value.into()));
    }

    /// What it has cost, so far or in the end.
    pub(crate) fn cost(&self, summary: Summary) {
        self.facts(|facts| facts.summary = Some(summary));
    }

    /// It failed after its answer had begun.
    pub(crate) fn fail(&self, code: &str) {
        self.facts(|facts| facts.failure = Some(code.to_owned()));
    }

    /// Writes the line, once.
    pub(crate) fn write(&self, log: &Log, outcome: &str) {
        self.facts(|facts| {
            if std::mem::replace(&mut facts.is_written, true) {
                return;
            }
            let outcome = facts.failure.clone().unwrap_or_else(|| outcome.to_owned());
            let mut fields = facts.fields.clone();
            if let Some(summary) = facts.summary {
                fields.insert("prompt_tokens".to_owned(), summary.prompt_tokens.into());
                fields.insert("cached_tokens".to_owned(), summary.cached_tokens.into());
                fields.insert("completion_tokens".to_owned(), summary.completion_tokens.into());
                fields.insert("queue_ms".to_owned(), ms(summary.queued).into());
                fields.insert("prefill_ms".to_owned(), ms(summary.prefill).into());
                fields.insert("decode_ms".to_owned(), ms(summary.decode).into());
            }
            fields.insert("ms".to_owned(), ms(facts.began.elapsed()).into());
            fields.insert("outcome".to_owned(), outcome.into());
            log.write(&fields);
        });
    }

    fn facts<T>(&self, act: impl FnOnce(&mut Facts) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::{Log, Record};
    use crate::config::{LogConfig, LogContent, LogFormat};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_request_is_one_line() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let memory = Memory::default();
            let log = Log::new(LogConfig { format, content: LogContent::None }, memory.clone());
            let record = Record::new("req-1", "POST", "/v1/x\n\"forged\": 1");
            record.set("status", 200);
            record.write(&log, "done");
            record.write(&log, "client_gone");
            let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.lines().count(), 1, "{text}");
            match format {
                LogFormat::Json => {
                    let line: Value = serde_json::from_str(&text).unwrap();
                    assert_eq!((line["id"].as_str(), line["outcome"].as_str()), (Some("req-1"), Some("done")));
                }
                LogFormat::Text => assert!(text.starts_with("id=req-1 method=POST path=\"/v1/x\\n"), "{text}"),
            }
        }
    }
}
