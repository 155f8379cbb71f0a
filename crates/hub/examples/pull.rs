//! Pulls a model of the catalog into a folder, by hand: `cargo run -p zinc-hub --example pull -- FOLDER [ID]`.
//!
//! Shows each event on standard error, and the path on standard output.

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zinc_hub::{Event, Folders, HUB_URL, Limits, Settings, catalog, pull};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: pull FOLDER [ID]")?);
    let entry = match arguments.next() {
        Some(id) => catalog::find(&id).ok_or("no such model")?,
        None => catalog::DEFAULT,
    };
    let settings = Settings {
        hub_url: HUB_URL.to_owned(),
        token: None,
        proxy: None,
        python: "python3".into(),
        limits: Limits::STANDARD,
    };
    let started = Instant::now();
    let mut shown = None;
    let mut show = |event: Event<'_>| match event {
        Event::Progress { phase, done, total } => {
            let tenth = Some((phase, done * 10 / total.max(1)));
            if shown != tenth {
                shown = tenth;
                eprintln!("{:6.2} s  {phase:?} {done} of {total}", started.elapsed().as_secs_f32());
            }
        }
        Event::Trying { source } => eprintln!("{:6.2} s  trying {source}", started.elapsed().as_secs_f32()),
        Event::Failed { reason, .. } => eprintln!("{:6.2} s  failed: {reason}", started.elapsed().as_secs_f32()),
        Event::Retrying { reason, delay } => eprintln!("again in {delay:?}: {reason}"),
    };
    let folders = Folders::at(&std::path::absolute(folder)?);
    let installed = pull(entry, &folders, &settings, &AtomicBool::new(false), &mut show)?;
    eprintln!("{:6.2} s  {installed:?}", started.elapsed().as_secs_f32());
    print(&installed.path.display().to_string())
}

fn print(line: &str) -> Result<(), Box<dyn Error>> {
    use std::io::Write;
    Ok(writeln!(std::io::stdout(), "{line}")?)
}
