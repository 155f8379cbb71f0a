//! `zinc inspect`: what a GGUF file holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, json};
use zinc_gguf::{Array, Gguf, TensorInfo, Value};

use crate::args::show::InspectArgs;
use crate::commands::open_error;
use crate::failure::Outcome;
use crate::output::{bytes, count, print};

/// Elements of an array that are shown unless `--all` is given.
const ARRAY_SHOWN: usize = 6;
/// Characters of a string that are shown unless `--all` is given.
const STRING_SHOWN: usize = 100;

pub(crate) fn run(args: &InspectArgs) -> Outcome {
    let file = Gguf::open_header(&args.file).map_err(|e| open_error(&args.file, &e))?;
    let text = if args.json { as_json(&file, args.all) } else { as_text(&args.file, &file, args.all) };
    print(&text)
}

fn as_text(path: &Path, file: &Gguf, all: bool) -> String {
    let mut out = String::new();
    let n_parameters: u64 = file.tensors().iter().map(TensorInfo::n_elements).sum();
    let n_bytes: u64 = file.tensors().iter().map(TensorInfo::n_bytes).sum();
    let line = |out: &mut String, key: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(out, "{key:<14}{value}");
    };
    line(&mut out, "file", &path.display());
    line(&mut out, "version", &format_args!("GGUF v{}", file.version()));
    line(&mut out, "parameters", &count(n_parameters));
    line(&mut out, "tensors", &format_args!("{}, {}", file.tensors().len(), bytes(n_bytes)));
    for (dtype, (n, size)) in by_type(file) {
        line(&mut out, "", &format_args!("{dtype:<7}{n:>5} tensors  {}", bytes(size)));
    }
    let _ = writeln!(out, "\nmetadata ({})", file.metadata().len());
    for (key, value) in file.metadata().iter() {
        let _ = writeln!(out, "  {key} = {}", show(value, all));
    }
    if all {
        let _ = writeln!(out, "\ntensors ({})", file.tensors().len());
        for tensor in file.tensors() {
            let _ = writeln!(out, "  {:<40} {:<7} {:?}", tensor.name, tensor.dtype.to_string(), tensor.shape);
        }
    } else {
        out.push_str("\n--all shows every tensor and whole arrays\n");
    }
    out
}

fn by_type(file: &Gguf) -> BTreeMap<String, (usize, u64)> {
    let mut types = BTreeMap::new();
    for tensor in file.tensors() {
        let (n, size) = types.entry(tensor.dtype.to_string()).or_insert((0, 0));
        *n += 1;
        *size += tensor.n_bytes();
    }
    types
}

fn as_json(file: &Gguf, all: bool) -> String {
    let metadata: Map<String, serde_json::Value> =
        file.metadata().iter().map(|(key, value)| (key.to_owned(), value_json(value, all))).collect();
    let tensors: Vec<serde_json::Value> = file
        .tensors()
        .iter()
        .map(|t| json!({ "name": t.name, "type": t.dtype.to_string(), "shape": t.shape, "bytes": t.n_bytes() }))
        .collect();
    let n_parameters: u64 = file.tensors().iter().map(TensorInfo::n_elements).sum();
    let n_bytes: u64 = file.tensors().iter().map(TensorInfo::n_bytes).sum();
    let object = json!({
        "version": file.version(), "n_parameters": n_parameters, "tensor_bytes": n_bytes,
        "metadata": metadata, "tensors": tensors,
    });
    format!("{object:#}\n")
}

fn value_json(value: &Value, all: bool) -> serde_json::Value {
    match value {
        Value::U8(n) => json!(n),
        Value::I8(n) => json!(n),
        Value::U16(n) => json!(n),
        Value::I16(n) => json!(n),
        Value::U32(n) => json!(n),
        Value::I32(n) => json!(n),
        Value::U64(n) => json!(n),
        Value::I64(n) => json!(n),
        Value::F32(n) => json!(n),
        Value::F64(n) => json!(n),
        Value::Bool(b) => json!(b),
        Value::String(text) => json!(text),
        Value::Bytes(bytes) => json!(String::from_utf8_lossy(bytes)),
        Value::Array(array) if all => elements(array, usize::MAX).into(),
        Value::Array(array) => json!({ "length": array.len(), "first": elements(array, ARRAY_SHOWN) }),
    }
}

fn elements(array: &Array, n: usize) -> Vec<serde_json::Value> {
    macro_rules! take {
        ($items:expr) => {
            $items.iter().take(n).map(|item| json!(item)).collect()
        };
    }
    match array {
        Array::U8(items) => take!(items),
        Array::I8(items) => take!(items),
        Array::U16(items) => take!(items),
        Array::I16(items) => take!(items),
        Array::U32(items) => take!(items),
        Array::I32(items) => take!(items),
        Array::U64(items) => take!(items),
        Array::I64(items) => take!(items),
        Array::F32(items) => take!(items),
        Array::F64(items) => take!(items),
        Array::Bool(items) => take!(items),
        Array::String(items) => items.iter_bytes().take(n).map(|b| json!(String::from_utf8_lossy(b))).collect(),
        Array::Array(items) => items.iter().take(n).map(|inner| elements(inner, n).into()).collect(),
    }
}

fn show(value: &Value, all: bool) -> String {
    match value {
        Value::String(text) => shown_string(text, all),
        Value::Array(array) => {
            let shown = if all { array.len() } else { ARRAY_SHOWN };
            let items: Vec<String> = elements(array, shown).iter().map(ToString::to_string).collect();
            let rest = if array.len() > shown { ", …" } else { "" };
            format!("{} × [{}{rest}]", array.len(), items.join(", "))
        }
        other => value_json(other, all).to_string(),
    }
}

/// Control characters are escaped: a file must not write to the terminal.
fn shown_string(text: &str, all: bool) -> String {
    let escaped = text.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"");
    match escaped.char_indices().nth(STRING_SHOWN) {
        Some((end, _)) if !all => format!("{}… ({} characters)", &escaped[..end], text.chars().count()),
        _ => escaped,
    }
}
