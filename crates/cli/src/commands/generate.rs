//! `zinc --prompt …`: a text in, a text out.

use std::io::Read;
use std::path::Path;
use std::time::Instant;

use serde_json::json;
use zinc_engine::constraint::Constraint;
use zinc_engine::sampler::Sampling;
use zinc_tokenizer::{Encode, Tokenizer};

use crate::args::generate::{ConstraintArgs, GenerateArgs};
use crate::commands::graph;
use crate::conversation::{Conversation, Speaker};
use crate::failure::{Failure, Kind, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{dim, note, print, stderr_colours};
use crate::session::{ModelFile, engine_error, loaded, vocabulary};
use crate::speak::{Finish, Speech, Spoken, ms, sampling, seed, speak, summary};

/// Bytes of a prompt from standard input.
const STDIN_BYTES_MAX: u64 = 64 << 20;
/// Tokens of an answer at most, unless the user says otherwise.
const MAX_TOKENS: u32 = 256;

pub(crate) fn run(args: &GenerateArgs) -> Outcome {
    let wants_graph = args.graph_report.is_some() || args.graph_dot.is_some();
    let Some(prompt) = &args.prompt else {
        if wants_graph {
            let interrupt = Interrupt::listen()?;
            return graph::write(&ModelFile::open_header(&args.model, &interrupt)?, args);
        }
        return Err(Failure::usage("nothing to do: there is neither a command nor a prompt")
            .remedy("zinc --prompt \"The capital of France is\"   or   zinc --help"));
    };
    let interrupt = Interrupt::listen()?;
    let text = if prompt == "-" { from_stdin()? } else { prompt.clone() };
    let started = Instant::now();
    let file = ModelFile::open(&args.model, &interrupt)?;
    if wants_graph {
        graph::write(&file, args)?;
    }
    let tokenizer = file.tokenizer()?;
    let (ids, default) = prompt_ids(args, &file, &tokenizer, &text)?;
    let constraint = constraint(&args.constraint)?;
    let mut engine = file.engine(&args.device)?;
    if constraint.is_some() {
        engine = engine.with_vocabulary(vocabulary(&tokenizer)).map_err(engine_error)?;
    }
    let colours = stderr_colours();
    note(&dim(&loaded(&file.path, &engine, started), colours));
    let speech = Speech {
        prompt: ids.clone(),
        max_tokens: args.answer.max_tokens.unwrap_or(MAX_TOKENS),
        sampling: sampling(&args.sampling, default)?,
        seed: seed(&args.sampling),
        ignore_eos: args.ignore_eos,
        stop: &args.stop,
        constraint,
    };
    let streams = !args.json;
    let emit = |piece: &str| if streams { print(piece) } else { Ok(()) };
    let spoken = speak(&mut engine, &tokenizer, speech, &interrupt, emit)?;
    if args.json {
        print(&as_json(&ids, &spoken))?;
    } else if !spoken.text.ends_with('\n') {
        print("\n")?;
    }
    note(&dim(&summary(&spoken.done), colours));
    match spoken.finish {
        Finish::Interrupted => Err(Failure::new(Kind::Interrupted, "interrupted; the text above is what there was")),
        Finish::Stop | Finish::Length => Ok(()),
    }
}

/// The prompt's ids, and the sampling that stands where the flags are silent.
fn prompt_ids(
    args: &GenerateArgs,
    file: &ModelFile,
    tokenizer: &Tokenizer,
    text: &str,
) -> Result<(Vec<u32>, Sampling), Failure> {
    if !args.chat {
        return Ok((tokenizer.encode(text, Encode { add_special: true, parse_special: false }), Sampling::greedy()));
    }
    let mut conversation = Conversation::new(file, tokenizer, args.system.as_deref(), args.thinking)?;
    conversation.say(Speaker::User, text);
    Ok((conversation.ids(tokenizer)?, file.sampling_when(args.thinking)))
}

/// What the flags hold the answer to.
fn constraint(args: &ConstraintArgs) -> Result<Option<Constraint>, Failure> {
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path);
        text.map_err(|e| Failure::usage(format!("cannot read {}: {e}", path.display())))
    };
    Ok(match args {
        ConstraintArgs { json_schema: Some(path), .. } => Some(Constraint::JsonSchema(read(path)?)),
        ConstraintArgs { regex: Some(regex), .. } => Some(Constraint::Regex(regex.clone())),
        ConstraintArgs { grammar: Some(path), .. } => Some(Constraint::Lark(read(path)?)),
        ConstraintArgs { json_schema: None, regex: None, grammar: None } => None,
    })
}

fn from_stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(STDIN_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|e| Failure::failed(format!("cannot read the prompt from standard input: {e}")))?;
    if bytes.len() as u64 > STDIN_BYTES_MAX {
        return Err(Failure::usage(format!("the prompt on standard input is longer than {STDIN_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|e| Failure::usage(format!("the prompt on standard input is not UTF-8: {e}")))
}

fn as_json(prompt: &[u32], spoken: &Spoken) -> String {
    let timings = spoken.done.timings;
    let object = json!({
        "prompt_ids": prompt,
        "ids": spoken.ids,
        "text": spoken.text,
        "finish_reason": spoken.finish.name(),
        "timings": {
            "prefill_ms": ms(timings.prefill),
            "decode_ms": ms(timings.decode),
            "time_to_first_token_ms": timings.time_to_first_token.map(ms),
        },
    });
    format!("{object:#}\n")
}
