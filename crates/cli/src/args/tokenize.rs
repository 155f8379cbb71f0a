//! Flags of `zinc tokenize` and `zinc detokenize`.

use clap::Args;

use crate::args::shared::ModelArgs;

/// `zinc tokenize`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TokenizeArgs {
    /// The text; `-` reads standard input.
    pub(crate) text: String,
    /// Read special tokens such as `<|im_end|>` in the text as tokens.
    #[arg(long)]
    pub(crate) special: bool,
    /// Leave out the tokens that the model puts around a text.
    #[arg(long)]
    pub(crate) no_bos: bool,
    /// Print JSON: ids and pieces.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// `zinc detokenize`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DetokenizeArgs {
    /// Token ids, with commas.
    #[arg(value_delimiter = ',', required = true)]
    pub(crate) ids: Vec<u32>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}
