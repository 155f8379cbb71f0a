//! Parameters of sampling that chat completions and completions share.

use serde_json::{Value, json};

use crate::config::Limits;
use crate::engine::TOP_LOGPROBS_MAX;
use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};
use crate::generate::SamplingChoice;

/// Entries of `logit_bias`.
const BIAS_MAX: usize = 4096;
/// Bytes of a stop string.
const STOP_BYTES_MAX: usize = 1024;
/// Fields that are OpenAI's bookkeeping; nothing is kept here.
const BOOKKEEPING: [&str; 5] = ["user", "metadata", "prompt_cache_key", "safety_identifier", "prompt_cache_retention"];

/// Reads how tokens are chosen.
pub(super) fn sampling(fields: &mut Fields) -> Result<SamplingChoice, ApiError> {
    Ok(SamplingChoice {
        temperature: fields.number("temperature", 0.0..=2.0)?,
        top_p: fields.number("top_p", 0.0..=1.0)?.map(|p| p.max(f32::MIN_POSITIVE)),
        top_k: top_k(fields)?,
        min_p: fields.number("min_p", 0.0..=1.0)?,
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?,
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?,
        repetition_penalty: match fields.number("repetition_penalty", 0.01..=100.0)? {
            Some(penalty) => Some(penalty),
            None => fields.number("repeat_penalty", 0.01..=100.0)?,
        },
        logit_bias: logit_bias(fields)?,
    })
}

/// `-1`, in vLLM's words, keeps all tokens, as 0 does.
fn top_k(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    match fields.any("top_k") {
        Some(value) if value == json!(-1) => Ok(Some(0)),
        Some(value) => {
            let mut single = Fields::of(String::new(), json!({ "top_k": value }))?;
            single.count32("top_k", 0..=u32::MAX)
        }
        None => Ok(None),
    }
}

fn logit_bias(fields: &mut Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let Some(bias) = fields.object("logit_bias")? else { return Ok(Vec::new()) };
    let entries = bias.rest();
    if entries.len() > BIAS_MAX {
        let n = entries.len();
        return Err(ApiError::field(
            "logit_bias",
            format!("`logit_bias` has {n} entries, at most {BIAS_MAX} are taken"),
        ));
    }
    let entry = |(key, value): (String, Value)| {
        let wrong = || {
            let key = crate::fields::quoted(&key);
            ApiError::field(
                "logit_bias",
                format!("`logit_bias` has the entry {key}: {value}; it must be a token id and -100 to 100"),
            )
        };
        let id: u32 = key.parse().map_err(|_| wrong())?;
        let bias = value.as_f64().filter(|bias| (-100.0..=100.0).contains(bias)).ok_or_else(wrong)?;
        #[allow(clippy::cast_possible_truncation, reason = "it is -100 to 100")]
        Ok((id, bias as f32))
    };
    entries.into_iter().map(entry).collect()
}

/// Reads `stop`: a text or a few.
pub(super) fn stop(fields: &mut Fields, limits: &Limits) -> Result<Vec<String>, ApiError> {
    let stops = match fields.any("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(list)) => {
            let text = |value: Value| match value {
                Value::String(text) => Ok(text),
                other => Err(wrong_type("stop", "a string or an array of strings", &other)),
            };
            list.into_iter().map(text).collect::<Result<_, _>>()?
        }
        Some(other) => return Err(wrong_type("stop", "a string or an array of strings", &other)),
    };
    check_stops("stop", stops, limits)
}

/// Bounds stop strings.
pub(crate) fn check_stops(path: &str, stops: Vec<String>, limits: &Limits) -> Result<Vec<String>, ApiError> {
    let max = limits.stops_max;
    if stops.len() > max {
        return Err(ApiError::field(path, format!("`{path}` has {} entries, at most {max} are taken", stops.len())));
    }
    if let Some(long) = stops.iter().find(|stop| stop.is_empty() || stop.len() > STOP_BYTES_MAX) {
        let n = long.len();
        return Err(ApiError::field(
            path,
            format!("`{path}` has an entry of {n} bytes; it must have 1 to {STOP_BYTES_MAX}"),
        ));
    }
    Ok(stops)
}

/// Reads the number of log probabilities; OpenAI gives 20 at most, this engine more.
pub(super) fn top_logprobs(fields: &mut Fields, name: &str) -> Result<Option<u32>, ApiError> {
    fields.count32(name, 0..=TOP_LOGPROBS_MAX)
}

/// Takes what is bookkeeping, and refuses what would need it.
pub(super) fn bookkeeping(fields: &mut Fields) -> Result<(), ApiError> {
    fields.pass(&BOOKKEEPING);
    fields.refuse("store", &[json!(false)], "this server keeps no answers")?;
    fields.refuse("service_tier", &[json!("auto"), json!("default")], "there is one tier")
}
