//! A message as a stream of events: blocks begin, grow and end.

use serde_json::{Value, json};

use super::messages::{Block, Blocks, Head, stop_reason, usage};
use crate::error::Shape;
use crate::generate::{Finish, Piece};
use crate::sse::{Out, Writer};

/// Writes the events.
pub(super) struct MessagesWriter {
    head: Head,
    n_prompt: u32,
    blocks: Blocks,
    finish: Option<Finish>,
}

impl MessagesWriter {
    pub(super) fn new(head: Head, n_prompt: u32) -> MessagesWriter {
        MessagesWriter { head, n_prompt, blocks: Blocks::default(), finish: None }
    }

    fn end_block(index: usize, out: &mut Out) {
        send("content_block_stop", json!({"index": index}), out);
    }
}

fn send(name: &str, mut value: Value, out: &mut Out) {
    value["type"] = name.into();
    out.event(name, &value);
}

impl Writer for MessagesWriter {
    fn begin(&mut self, out: &mut Out) {
        let mut message = self.head.object(json!([]));
        message["usage"] = json!({
            "input_tokens": self.n_prompt, "output_tokens": 0,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        });
        send("message_start", json!({"message": message}), out);
    }

    fn piece(&mut self, piece: Piece, out: &mut Out) {
        match piece {
            Piece::Delta { delta, .. } => {
                let n_before = self.blocks.0.len();
                let (begins, text) = self.blocks.take(delta);
                let Some((index, block)) = self.blocks.0.len().checked_sub(1).map(|i| (i, &self.blocks.0[i])) else {
                    return;
                };
                if begins {
                    if n_before > 0 {
                        MessagesWriter::end_block(n_before - 1, out);
                    }
                    send("content_block_start", json!({"index": index, "content_block": block.empty()}), out);
                }
                if text.is_empty() {
                    return;
                }
                let delta = match block {
                    Block::Thinking(_) => json!({"type": "thinking_delta", "thinking": text}),
                    Block::Text(_) => json!({"type": "text_delta", "text": text}),
                    Block::Call { .. } => json!({"type": "input_json_delta", "partial_json": text}),
                };
                send("content_block_delta", json!({"index": index, "delta": delta}), out);
            }
            Piece::End { finish, .. } => self.finish = Some(finish),
            Piece::Done(summary) => {
                if let Some(last) = self.blocks.0.len().checked_sub(1) {
                    MessagesWriter::end_block(last, out);
                }
                let (reason, sequence) = stop_reason(self.finish.as_ref());
                let delta = json!({"stop_reason": reason, "stop_sequence": sequence});
                send("message_delta", json!({"delta": delta, "usage": usage(&summary)}), out);
                send("message_stop", json!({}), out);
            }
            Piece::Failed(error) => out.event("error", &error.body(Shape::Anthropic)),
            Piece::Progress(_) => {}
        }
    }

    fn ping(&mut self, out: &mut Out) {
        send("ping", json!({}), out);
    }
}
