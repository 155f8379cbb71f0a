//! `zinc model` and the commands below it.

use clap::Subcommand;

use crate::args::shared::{DeviceArgs, ModelArgs};

/// `zinc model …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// List the models that fit this machine, and those that are here.
    List {
        /// List the whole catalog.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Device that they are to fit, as `--device` takes it elsewhere.
        #[arg(long, value_name = "DEVICE", default_value = "auto")]
        device: String,
    },
    /// Fetch a model of the catalog, or any model of the hub: owner/name:Q4_K_M.
    Pull {
        /// Its id, or owner/name:QUANTISATION.
        id: String,
    },
    /// Choose the model that runs if none is named.
    Use {
        /// The id of a model that is here, or can be fetched.
        id: String,
    },
    /// Print the model that runs if none is named.
    Active {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove a model, or what is left of its download.
    Rm {
        /// Its id, or owner/name:QUANTISATION.
        id: String,
        /// Also if a process runs it.
        #[arg(long)]
        force: bool,
    },
    /// Print where a fetched model lies.
    Path {
        /// Its id, or owner/name:QUANTISATION.
        id: String,
    },
    /// Read a model's files and compare their SHA-256 with what it was when they came.
    Verify {
        /// Its id, or owner/name:QUANTISATION.
        id: String,
    },
    /// Say whether a model fits, with the bytes of each part, and how long its context can be.
    Fit {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        model: ModelArgs,
        #[command(flatten)]
        device: DeviceArgs,
    },
}
