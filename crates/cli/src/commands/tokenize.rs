//! `zinc tokenize` and `zinc detokenize`.

use std::io::Read;

use serde_json::json;
use zinc_tokenizer::{DecodeOptions, Encode};

use crate::args::tokenize::{DetokenizeArgs, TokenizeArgs};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::print;
use crate::session::ModelFile;

pub(crate) fn encode(args: &TokenizeArgs) -> Outcome {
    let text = if args.text == "-" { stdin()? } else { args.text.clone() };
    let tokenizer = ModelFile::open_header(&args.model, &Interrupt::listen()?)?.tokenizer()?;
    let ids = tokenizer.encode(&text, Encode { add_special: !args.no_bos, parse_special: args.special });
    if args.json {
        let pieces: Vec<String> =
            ids.iter().map(|&id| String::from_utf8_lossy(tokenizer.piece(id)).into_owned()).collect();
        return print(&format!("{:#}\n", json!({ "ids": ids, "pieces": pieces })));
    }
    let words: Vec<String> = ids.iter().map(ToString::to_string).collect();
    print(&format!("{}\n", words.join(",")))
}

pub(crate) fn decode(args: &DetokenizeArgs) -> Outcome {
    let tokenizer = ModelFile::open_header(&args.model, &Interrupt::listen()?)?.tokenizer()?;
    if let Some(id) = args.ids.iter().find(|&&id| id >= tokenizer.n_vocab()) {
        return Err(Failure::usage(format!("token {id} does not exist: the vocabulary has {}", tokenizer.n_vocab())));
    }
    let text = tokenizer.decode(&args.ids, DecodeOptions { render_special: true, continues: false });
    print(&format!("{text}\n"))
}

fn stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut text);
    read.map_err(|e| Failure::failed(format!("cannot read standard input: {e}")))?;
    Ok(text)
}
