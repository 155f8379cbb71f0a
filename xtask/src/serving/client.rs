//! A client of the streaming chat API, as plain as it can be: what is timed is the server.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use serde_json::Value;

/// Time that any step of a request may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client that keeps its connections.
#[derive(Clone)]
pub(super) struct Client {
    agent: ureq::Agent,
    url: String,
}

/// An answer that has begun.
pub(super) enum Answer {
    /// Events, as they come.
    Stream(Events),
    /// Another status than 200, the seconds of `Retry-After`, and the body.
    Refused {
        /// Status.
        status: u16,
        /// Whether it says when to come again.
        says_when: bool,
        /// Body.
        body: String,
    },
}

impl Client {
    pub(super) fn new(url: &str) -> Client {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .build();
        Client { agent: config.into(), url: url.to_owned() }
    }

    /// Sends a chat; the answer's head has come when this returns.
    pub(super) fn chat(&self, body: &Value) -> Result<Answer, String> {
        let request = self.agent.post(format!("{}/v1/chat/completions", self.url));
        let mut response =
            request.content_type("application/json").send(body.to_string()).map_err(|e| e.to_string())?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(Answer::Stream(Events(BufReader::new(response.into_body().into_reader()))));
        }
        let says_when = response.headers().contains_key("retry-after");
        let body = response.body_mut().read_to_string().map_err(|e| e.to_string())?;
        Ok(Answer::Refused { status, says_when, body })
    }

    /// The text at a path, and its status.
    pub(super) fn get(&self, path: &str) -> Result<(u16, String), String> {
        let mut response = self.agent.get(format!("{}{path}", self.url)).call().map_err(|e| e.to_string())?;
        let text = response.body_mut().read_to_string().map_err(|e| e.to_string())?;
        Ok((response.status().as_u16(), text))
    }

    /// Waits until the model is loaded.
    pub(super) fn wait_until_ready(&self) -> Result<(), String> {
        let end = std::time::Instant::now() + PATIENCE;
        while self.get("/ready")?.0 != 200 {
            if std::time::Instant::now() > end {
                return Err(format!("the server is not ready after {} s", PATIENCE.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// One figure of `/metrics`, summed over its labels.
    pub(super) fn metric(&self, name: &str) -> Result<f64, String> {
        let (_, page) = self.get("/metrics")?;
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let values = page.lines().filter(of_name).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(values.sum())
    }
}

/// The events of a stream. Dropping them closes the connection.
pub(super) struct Events(BufReader<ureq::BodyReader<'static>>);

/// One event.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    /// A chunk.
    Chunk(Value),
    /// The last one.
    Done,
}

impl Event {
    /// An event from its text.
    pub(super) fn read(text: &str) -> Result<Event, String> {
        if text == "[DONE]" {
            return Ok(Event::Done);
        }
        serde_json::from_str(text).map(Event::Chunk).map_err(|e| format!("{e}: {text}"))
    }

    /// Whether it brings text.
    pub(super) fn has_text(&self) -> bool {
        let Event::Chunk(chunk) = self else { return false };
        let delta = &chunk["choices"][0]["delta"];
        ["content", "reasoning_content"].iter().any(|key| delta[*key].as_str().is_some_and(|text| !text.is_empty()))
    }
}

impl Events {
    /// The next event as it was sent, unread.
    pub(super) fn next_text(&mut self) -> Option<Result<String, String>> {
        let mut line = String::new();
        loop {
            line.clear();
            match self.0.read_line(&mut line) {
                Ok(0) => return None,
                Err(error) => return Some(Err(error.to_string())),
                Ok(_) => {}
            }
            if let Some(data) = line.trim_end().strip_prefix("data: ") {
                return Some(Ok(data.to_owned()));
            }
        }
    }
}

impl Iterator for Events {
    type Item = Result<Event, String>;

    fn next(&mut self) -> Option<Result<Event, String>> {
        self.next_text().map(|text| text.and_then(|text| Event::read(&text)))
    }
}
