//! `zinc chat`: a conversation in the browser, or with `--cli` in the terminal.

use std::time::Instant;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::args::chat::ChatArgs;
use crate::commands::serve;
use crate::conversation::{Conversation, Speaker};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{dim, note, print, stderr_colours};
use crate::session::{ModelFile, loaded};
use crate::speak::{Finish, Speech, sampling, seed, speak, summary};

/// Tokens of an answer at most, unless the user says otherwise.
const MAX_TOKENS: u32 = 1024;

const HELP: &str = "\
/clear   forget the conversation     /undo   take the last question and answer back
/help    this text                   /quit   leave (or Ctrl-D)
A line that ends in \\ goes on in the next one. Ctrl-C stops an answer.";

pub(crate) fn run(args: &ChatArgs) -> Outcome {
    if !args.cli {
        return serve::run_chat(args);
    }
    let interrupt = Interrupt::listen()?;
    let started = Instant::now();
    let file = ModelFile::open(&args.model, &interrupt)?;
    let tokenizer = file.tokenizer()?;
    let mut conversation = Conversation::new(&file, &tokenizer, args.system.as_deref(), args.thinking)?;
    let mut engine = file.engine(&args.device)?;
    let colours = stderr_colours();
    note(&dim(&loaded(&file.path, &engine, started), colours));
    note(&dim(HELP, colours));
    let sampling = sampling(&args.sampling, file.sampling_when(args.thinking))?;
    let mut seed = seed(&args.sampling);
    let mut editor =
        DefaultEditor::new().map_err(|e| Failure::failed(format!("cannot read from this terminal: {e}")))?;
    while let Some(line) = read_message(&mut editor)? {
        match line.trim() {
            "" => continue,
            "/quit" | "/exit" => break,
            "/help" => {
                note(HELP);
                continue;
            }
            "/clear" => {
                conversation.clear();
                note(&dim("forgotten", colours));
                continue;
            }
            "/undo" => {
                conversation.unsay();
                conversation.unsay();
                note(&dim("taken back", colours));
                continue;
            }
            _ => conversation.say(Speaker::User, &line),
        }
        let speech = Speech {
            prompt: conversation.ids(&tokenizer)?,
            max_tokens: args.answer.max_tokens.unwrap_or(MAX_TOKENS),
            sampling: sampling.clone(),
            seed,
            ignore_eos: false,
            stop: &[],
            constraint: None,
        };
        interrupt.clear();
        match speak(&mut engine, &tokenizer, speech, &interrupt, print) {
            Ok(spoken) => {
                print("\n")?;
                if spoken.finish == Finish::Interrupted {
                    note(&dim("stopped", colours));
                }
                conversation.say(Speaker::Assistant, &spoken.text);
                note(&dim(&summary(&spoken.done), colours));
            }
            // A message that does not fit the context is the person's to shorten, not the end.
            Err(failure) => {
                conversation.unsay();
                note(&format!("error: {}", failure.message));
                failure.remedy.iter().for_each(|r| note(&dim(r, colours)));
            }
        }
        seed = seed.wrapping_add(1);
    }
    Ok(())
}

/// A message of one or more lines; `None` at the end of input.
fn read_message(editor: &mut DefaultEditor) -> Result<Option<String>, Failure> {
    let mut message = String::new();
    loop {
        match editor.readline(if message.is_empty() { "> " } else { ". " }) {
            Ok(line) => {
                if let Some(part) = line.strip_suffix('\\') {
                    message.push_str(part);
                    message.push('\n');
                    continue;
                }
                message.push_str(&line);
                // A history that cannot be kept costs nothing but the arrow key.
                let _ = editor.add_history_entry(&message);
                return Ok(Some(message));
            }
            Err(ReadlineError::Interrupted) => message.clear(),
            Err(ReadlineError::Eof) => return Ok(None),
            Err(error) => return Err(Failure::failed(format!("cannot read from this terminal: {error}"))),
        }
    }
}
