//! A generator that says what it is told, and remembers what it was asked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zinc_engine::Error;
use zinc_engine::runtime::EventSink;
use zinc_server::engine::{
    Done, Event, Events, FinishReason, Generator, Request, RequestId, Stats, Timings, Token, Usage,
};
use zinc_tokenizer::{Encode, Tokenizer};

/// What it answers to one request.
#[derive(Clone, Debug)]
pub enum Line {
    /// This text, and then the end of the turn.
    Say(String),
    /// A text again and again, until it is cancelled.
    Drone(String),
    /// Nothing, until it is cancelled.
    Wait,
}

/// A generator that follows a script.
pub struct Scripted {
    tokenizer: Arc<Tokenizer>,
    lines: Mutex<VecDeque<Line>>,
    ids: AtomicU64,
    pub seen: Mutex<Vec<Request>>,
    pub cancelled: Mutex<Vec<RequestId>>,
    running: Mutex<Vec<(RequestId, Events)>>,
}

impl Scripted {
    pub fn new(tokenizer: Arc<Tokenizer>) -> Arc<Scripted> {
        Arc::new(Scripted {
            tokenizer,
            lines: Mutex::default(),
            ids: AtomicU64::new(0),
            seen: Mutex::default(),
            cancelled: Mutex::default(),
            running: Mutex::default(),
        })
    }

    /// What it says next.
    pub fn will(&self, lines: impl IntoIterator<Item = Line>) {
        self.lines.lock().unwrap().extend(lines);
    }

    /// The prompt of a request as text.
    pub fn prompt(&self, index: usize) -> String {
        let options = zinc_tokenizer::DecodeOptions { render_special: true, continues: true };
        self.tokenizer.decode(&self.seen.lock().unwrap()[index].prompt, options)
    }

    fn is_running(&self, id: RequestId) -> bool {
        self.running.lock().unwrap().iter().any(|(other, _)| *other == id)
    }

    fn end(&self, id: RequestId, reason: FinishReason, generated: u32) {
        let mut running = self.running.lock().unwrap();
        let Some(at) = running.iter().position(|(other, _)| *other == id) else { return };
        let (_, mut events) = running.swap_remove(at);
        let prompt = self.seen.lock().unwrap().last().map_or(0, |request| request.prompt.len());
        let usage = Usage {
            prompt_tokens: u32::try_from(prompt).unwrap(),
            cached_prompt_tokens: 0,
            computed_prompt_tokens: u32::try_from(prompt).unwrap(),
            generated_tokens: generated,
        };
        let timings = Timings { decode: Duration::from_millis(10), ..Timings::default() };
        events.send(Event::ChoiceDone { choice: 0, reason: reason.clone() });
        events.send(Event::Done(Done { reason, usage, timings }));
    }

    fn token(&self, id: RequestId, token: u32) {
        let token = Token { choice: 0, id: token, logprob: None, top: Vec::new(), logits: None };
        if let Some((_, events)) = self.running.lock().unwrap().iter_mut().find(|(other, _)| *other == id) {
            events.send(Event::Token(token));
        }
    }
}

/// Shares the script between the server and a test.
pub struct Shared(pub Arc<Scripted>);

impl Generator for Shared {
    fn submit(&self, request: Request, events: Events) -> Result<RequestId, Error> {
        let script = Arc::clone(&self.0);
        let id = RequestId(script.ids.fetch_add(1, Ordering::Relaxed));
        let line = script.lines.lock().unwrap().pop_front().expect("the script has a line for each request");
        let max_tokens = request.max_tokens as usize;
        script.seen.lock().unwrap().push(request);
        script.running.lock().unwrap().push((id, events));
        let encode = |text: &str| script.tokenizer.encode(text, Encode { add_special: false, parse_special: true });
        match line {
            Line::Wait => {}
            Line::Say(text) => {
                let ids = encode(&text);
                std::thread::spawn(move || {
                    let n = ids.len().min(max_tokens);
                    ids[..n].iter().for_each(|&token| script.token(id, token));
                    let reason = if n < ids.len() { FinishReason::Length } else { FinishReason::Stop { id: 0 } };
                    script.end(id, reason, u32::try_from(n).unwrap());
                });
            }
            Line::Drone(text) => {
                let ids = encode(&text);
                std::thread::spawn(move || {
                    while script.is_running(id) {
                        ids.iter().for_each(|&token| script.token(id, token));
                        std::thread::yield_now();
                        // As a model would, it takes its time: else the reader could never keep up.
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
        }
        Ok(id)
    }

    fn cancel(&self, id: RequestId) {
        self.0.cancelled.lock().unwrap().push(id);
        self.0.end(id, FinishReason::Cancelled, 0);
    }

    fn cancel_choice(&self, id: RequestId, _: u32) {
        self.cancel(id);
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn broken(&self) -> Option<Arc<Error>> {
        None
    }
}
