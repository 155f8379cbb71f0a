//! What a request cost, in OpenAI's words and in this server's.

use std::time::Duration;

use serde_json::{Value, json};
use zinc_tokenizer::Tokenizer;

use crate::generate::{Summary, TokenLogprob};

/// `usage` of chat completions and completions.
pub(super) fn usage(summary: &Summary) -> Value {
    json!({
        "prompt_tokens": summary.prompt_tokens,
        "completion_tokens": summary.completion_tokens,
        "total_tokens": summary.prompt_tokens + summary.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": summary.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": summary.reasoning_tokens, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
    })
}

/// `timings`: where the time went.
pub(crate) fn timings(summary: &Summary) -> Value {
    let computed = summary.prompt_tokens.saturating_sub(summary.cached_tokens);
    // The first token comes out of the prompt's last step; the others take a step each.
    let steps = summary.completion_tokens.saturating_sub(1);
    json!({
        "queue_ms": ms(summary.queued),
        "prefill_ms": ms(summary.prefill),
        "decode_ms": ms(summary.decode),
        "time_to_first_token_ms": summary.first_token.map(ms),
        "cache_n": summary.cached_tokens,
        "prompt_n": computed,
        "predicted_n": summary.completion_tokens,
        "prompt_per_second": rate(computed, summary.prefill),
        "predicted_per_second": rate(steps, summary.decode),
    })
}

/// Milliseconds with microseconds behind the point.
pub(crate) fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn rate(n: u32, time: Duration) -> Option<f64> {
    (n > 0 && !time.is_zero()).then(|| (f64::from(n) / time.as_secs_f64() * 100.0).round() / 100.0)
}

/// `logprobs` of a chat completion.
pub(super) fn chat_logprobs(tokenizer: &Tokenizer, entries: &[TokenLogprob], n_top: u32) -> Value {
    let content: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let mut object = one(tokenizer, entry.id, entry.logprob);
            let top = entry.top.iter().take(n_top as usize).map(|rival| one(tokenizer, rival.id, rival.logprob));
            object["top_logprobs"] = top.collect();
            object
        })
        .collect();
    json!({"content": content, "refusal": null})
}

fn one(tokenizer: &Tokenizer, id: u32, logprob: f32) -> Value {
    let bytes = tokenizer.piece(id);
    // OpenAI's least value: minus infinity is not JSON.
    json!({"token": String::from_utf8_lossy(bytes), "logprob": finite(logprob), "bytes": bytes})
}

/// A log probability that JSON can carry.
pub(super) fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { -9999.0 }
}
