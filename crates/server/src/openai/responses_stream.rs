//! A response as a stream of events: items begin, grow and end, each with a number.

use serde_json::{Value, json};

use super::responses::{Head, Item, Items, Kind};
use crate::error::Shape;
use crate::generate::{Finish, Piece, Summary};
use crate::sse::{Out, Writer};

/// Writes the events.
pub(super) struct ResponsesWriter {
    head: Head,
    items: Items,
    finish: Option<Finish>,
    n_events: u64,
}

impl ResponsesWriter {
    pub(super) fn new(head: Head) -> ResponsesWriter {
        ResponsesWriter { head, items: Items::default(), finish: None, n_events: 0 }
    }

    fn send(&mut self, name: &str, mut value: Value, out: &mut Out) {
        value["type"] = name.into();
        value["sequence_number"] = self.n_events.into();
        self.n_events += 1;
        out.event(name, &value);
    }

    /// The place of the last item, and the item.
    fn last(&self) -> Option<(usize, &Item)> {
        self.items.0.len().checked_sub(1).map(|index| (index, &self.items.0[index]))
    }

    fn begin_item(&mut self, out: &mut Out) {
        let Some((index, item)) = self.last() else { return };
        let (id, is_call) = (item.id.clone(), matches!(item.kind, Kind::Call { .. }));
        let empty = Item { id: id.clone(), kind: item.kind.clone(), text: String::new() };
        let mut shown = empty.json("in_progress");
        if !is_call {
            shown["content"] = json!([]);
        }
        let part = empty.part();
        self.send("response.output_item.added", json!({"output_index": index, "item": shown}), out);
        if !is_call {
            let value = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part});
            self.send("response.content_part.added", value, out);
        }
    }

    fn grow(&mut self, text: &str, out: &mut Out) {
        let Some((index, item)) = self.last() else { return };
        let value = json!({"item_id": item.id, "output_index": index, "content_index": 0, "delta": text});
        let (name, value) = match item.kind {
            Kind::Reasoning => ("response.reasoning_text.delta", value),
            Kind::Message => {
                let mut value = value;
                value["logprobs"] = json!([]);
                ("response.output_text.delta", value)
            }
            Kind::Call { .. } => (
                "response.function_call_arguments.delta",
                json!({"item_id": item.id, "output_index": index, "delta": text}),
            ),
        };
        self.send(name, value, out);
    }

    fn end_item(&mut self, status: &str, out: &mut Out) {
        let Some((index, item)) = self.last() else { return };
        let (id, text, part, whole) = (item.id.clone(), item.text.clone(), item.part(), item.json(status));
        let place = json!({"item_id": id, "output_index": index, "content_index": 0});
        match item.kind.clone() {
            Kind::Call { name, .. } => {
                let value = json!({"item_id": id, "output_index": index, "name": name, "arguments": text});
                self.send("response.function_call_arguments.done", value, out);
            }
            kind => {
                let mut value = place.clone();
                value["text"] = text.into();
                let name = match kind {
                    Kind::Reasoning => "response.reasoning_text.done",
                    _ => {
                        value["logprobs"] = json!([]);
                        "response.output_text.done"
                    }
                };
                self.send(name, value, out);
                let mut value = place;
                value["part"] = part;
                self.send("response.content_part.done", value, out);
            }
        }
        self.send("response.output_item.done", json!({"output_index": index, "item": whole}), out);
    }

    fn end(&mut self, summary: &Summary, out: &mut Out) {
        let is_cut = self.finish == Some(Finish::Length);
        self.end_item(if is_cut { "incomplete" } else { "completed" }, out);
        let name = if is_cut { "response.incomplete" } else { "response.completed" };
        let response = self.head.finished(&self.items, self.finish.as_ref(), summary);
        self.send(name, json!({"response": response}), out);
    }
}

impl Writer for ResponsesWriter {
    fn begin(&mut self, out: &mut Out) {
        let response = self.head.object("in_progress", json!([]));
        self.send("response.created", json!({"response": response}), out);
        self.send("response.in_progress", json!({"response": response}), out);
    }

    fn piece(&mut self, piece: Piece, out: &mut Out) {
        match piece {
            Piece::Delta { delta, .. } => {
                let n_items = self.items.0.len();
                let (begins, text) = self.items.take(delta);
                if begins {
                    if let Some(item) = self.items.0.pop() {
                        // The one before ends first.
                        if n_items > 0 {
                            self.end_item("completed", out);
                        }
                        self.items.0.push(item);
                    }
                    self.begin_item(out);
                }
                if !text.is_empty() {
                    self.grow(&text, out);
                }
            }
            Piece::End { finish, .. } => self.finish = Some(finish),
            Piece::Done(summary) => self.end(&summary, out),
            Piece::Failed(error) => {
                let mut response = self.head.object("failed", json!([]));
                response["error"] = json!({"code": "server_error", "message": error.message});
                self.send("response.failed", json!({"response": response}), out);
                let inner = error.body(Shape::OpenAi)["error"].take();
                self.send("error", json!({"code": error.code, "message": error.message, "param": inner["param"]}), out);
            }
            Piece::Progress(_) => {}
        }
    }
}
