//! `zinc serve`, `zinc -p PORT` and `zinc chat`: the server, with the models of this machine behind it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use zinc_server::auth::Keys;
use zinc_server::config::{Identity, Limits, LogConfig, LogContent, LogFormat, ServerConfig};
use zinc_server::log::Log;
use zinc_server::models::{Registry, RegistryConfig};

use crate::args::chat::ChatArgs;
use crate::args::generate::GenerateArgs;
use crate::args::serve::{Compat, ServeArgs, ServerArgs};
use crate::args::shared::{DeviceArgs, ModelArgs};
use crate::device::Devices;
use crate::failure::{Failure, Outcome};
use crate::loader::Models;
use crate::output::{dim, note, stderr_colours};

/// Port of the server, if the flags do not say.
pub(crate) const PORT: u16 = 8080;
const CHAT_PORT: u16 = 9090;
/// Answers at once, if the flags do not say.
pub(crate) const SEQUENCES: u32 = 16;
/// Bytes of a file of keys.
const KEY_FILE_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn run(args: &ServeArgs) -> Outcome {
    serve(&args.server, &args.model, &args.device, PORT, |_| {})
}

/// `zinc -p PORT`, with the flags of plain generation around it.
pub(crate) fn run_plain(server: &ServerArgs, args: &GenerateArgs) -> Outcome {
    if args.prompt.is_some() {
        return Err(Failure::usage("--prompt answers once and ends, -p serves until it is stopped")
            .remedy("leave out one of them"));
    }
    serve(server, &args.model, &args.device, PORT, |_| {})
}

/// `zinc chat` in the browser.
pub(crate) fn run_chat(args: &ChatArgs) -> Outcome {
    if args.system.is_some() || args.thinking.is_some() {
        return Err(Failure::usage("--system and --thinking belong to --cli")
            .remedy("the page has its own settings; or: zinc chat --cli"));
    }
    let opens = !args.browser.no_browser;
    serve(&args.server, &args.model, &args.device, CHAT_PORT, |address| {
        if opens {
            open_browser(&format!("http://{address}/"));
        }
    })
}

fn serve(
    server: &ServerArgs,
    model: &ModelArgs,
    device: &DeviceArgs,
    port: u16,
    ready: impl FnOnce(SocketAddr),
) -> Outcome {
    let keys = keys(server)?;
    let address = SocketAddr::new(server.host, server.port.unwrap_or(port));
    let is_public = !server.host.is_loopback();
    if is_public && keys.is_open() {
        note(
            "warning: this server answers everybody who can reach this machine; set a key with --api-key or --api-key-file",
        );
    }
    // Once, not for each model that is loaded.
    let id = Devices::existing(&device.device)?;
    let shares_cores = id == "cpu";
    let device = DeviceArgs { device: id, max_seqs: device.max_seqs.or(Some(SEQUENCES)), ..device.clone() };
    let models = Models::new(model, device)?;
    let registry = RegistryConfig {
        default_model: Some(models.first_id()),
        memory_bytes_max: server.model_memory,
        models_max: server.max_models.max(1),
    };
    let log = LogConfig {
        format: match server.log_format {
            crate::args::serve::LogFormat::Text => LogFormat::Text,
            crate::args::serve::LogFormat::Json => LogFormat::Json,
        },
        content: if server.log_requests { LogContent::Requests } else { LogContent::None },
    };
    let config = ServerConfig {
        address,
        keys,
        hosts: server.allow_host.clone(),
        origins: server.allow_origin.clone(),
        identity: match server.compat {
            Compat::Zinc => Identity::Zinc,
            Compat::Vllm => Identity::Vllm,
        },
        limits: Limits::STANDARD,
        shares_cores,
    };
    let registry = Registry::new(Arc::new(models), registry);
    let bound = |address: SocketAddr| {
        note(&dim(&format!("serving on http://{address} (API under /v1, page at /); Ctrl-C ends"), stderr_colours()));
        ready(address);
    };
    zinc_server::run(config, registry, Log::new(log, std::io::stderr()), bound).map_err(|error| {
        Failure::failed(format!("cannot serve on {address}: {error}")).remedy("choose another port with -p")
    })
}

/// The keys of flags and file.
fn keys(server: &ServerArgs) -> Result<Keys, Failure> {
    let given =
        Keys::new(server.api_key.iter().map(String::as_str)).map_err(|e| Failure::usage(format!("--api-key: {e}")))?;
    let Some(path) = &server.api_key_file else { return Ok(given) };
    let of_file = Keys::from_file_text(&read_keys(path)?);
    Ok(given.and(of_file.map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?))
}

fn read_keys(path: &Path) -> Result<String, Failure> {
    let failure = |e: std::io::Error| Failure::usage(format!("cannot read {}: {e}", path.display()));
    let size = std::fs::metadata(path).map_err(failure)?.len();
    if size > KEY_FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{} has {size} bytes; a file of keys has fewer", path.display())));
    }
    std::fs::read_to_string(path).map_err(failure)
}

/// Opens the page; who has no browser reads the address above.
fn open_browser(address: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    let started = command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if started.is_err() {
        note(&format!("no browser could be opened; the page is at {address}"));
    }
}
