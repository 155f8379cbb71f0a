//! Examples below the help of each command, and the exit codes.

/// Of the program itself.
pub(crate) const PROGRAM: &str = "\
Examples:
  zinc --check                                  is this machine ready?
  zinc --prompt \"The capital of France is\"      complete a text
  zinc --chat --prompt \"Explain tides\" -m FILE  one turn of a chat
  cat notes.txt | zinc --prompt - -n 200        the prompt from standard input
  zinc chat                                     talk in the browser
  zinc chat --cli                               talk in the terminal
  zinc -p 8080 -m FILE                          serve OpenAI's API from here
  zinc inspect FILE                             what a GGUF file holds
  zinc bench -m FILE                            how fast it runs here

The answer goes to standard output, everything else to standard error.

Settings: a flag goes before the environment (ZINC_KV_MEMORY for --kv-memory),
that before a file. `zinc config` names it and shows where each comes from.

Exit codes:
  0    done; --check: ready
  1    failed; --check: not ready
  2    wrong usage
  3    model not found
  4    model not usable
  5    download failed
  130  interrupted";

pub(crate) const CHAT: &str = "\
Examples:
  zinc chat                                   the default model, in the browser
  zinc chat --model-id qwen35-2b-q4k-m        another one of the catalog
  zinc chat --cli -m FILE --system \"Be brief.\"  in this terminal";

pub(crate) const SERVE: &str = "\
Examples:
  zinc serve -m FILE                          on 127.0.0.1:8080, API in /v1
  zinc serve -p 9000 --max-seqs 8 -m FILE     eight answers at once
  zinc serve --host 0.0.0.0 --api-key-file KEYS  for others, with keys
  curl http://127.0.0.1:8080/v1/models        what it serves";

pub(crate) const INSPECT: &str = "\
Examples:
  zinc inspect FILE                           header, metadata, types of tensors
  zinc inspect --all FILE                     every tensor, every array
  zinc inspect --json FILE                    for scripts";

pub(crate) const TOKENIZE: &str = "\
Examples:
  zinc tokenize -m FILE \"hello world\"
  zinc tokenize -m FILE --json - < text.txt   ids and pieces of a file";

pub(crate) const DETOKENIZE: &str = "\
Example:
  zinc detokenize -m FILE 9707,1879";

pub(crate) const LOGITS: &str = "\
Example:
  zinc logits -m FILE --ids 1,2,3 --top 5     the five likeliest after each";

pub(crate) const PERPLEXITY: &str = "\
Examples:
  zinc perplexity -m FILE -f text.txt         how well the model predicts a text
  zinc perplexity -m F16 -f text.txt --save-logits base
  zinc perplexity -m Q4 -f text.txt --kl-base base  what quantisation changed";

pub(crate) const BENCH: &str = "\
Examples:
  zinc bench -m FILE                          a prompt of 512, an answer of 128
  zinc bench -m FILE -b 1,4,16 -d 0,4096      several sequences, two depths
  zinc bench -m FILE --json > before.json     keep the figures
  zinc bench -m FILE --compare before.json    compare with them later";

pub(crate) const MODEL: &str = "\
Examples:
  zinc model list                             what there is, and what is here
  zinc model pull qwen35-2b-q4k-m             fetch one, or go on with it
  zinc -m \"$(zinc model path qwen35-2b-q4k-m)\" --prompt hello";

pub(crate) const SELFTEST: &str = "\
Examples:
  zinc selftest                               every kernel of the best device
  zinc selftest --device cpu --filter matmul  some of them, on the CPU";

pub(crate) const DEVICES: &str = "\
Examples:
  zinc devices                                what --device takes
  zinc devices --json                         for scripts";

pub(crate) const CONFIG: &str = "\
Example of a file (its keys are the flags above, without dashes in front):
  model-id = \"qwen35-2b-q4k-m\"
  device = \"vulkan\"
  context = 8192
  kv-memory = \"2GiB\"
  allow-host = [\"box.example\"]

Examples:
  zinc config                                 every setting and its source
  ZINC_CONTEXT=8192 zinc config --device cpu  with a variable and a flag
  ZINC_CONFIG=other.toml zinc config          with another file";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  zinc completions bash > ~/.local/share/bash-completion/completions/zinc
  zinc completions zsh > \"${fpath[1]}/_zinc\"
  zinc completions fish > ~/.config/fish/completions/zinc.fish";

pub(crate) const MAN: &str = "\
Examples:
  zinc man | man -l -                         read it
  zinc man --folder ~/.local/share/man/man1   one page for each command";
