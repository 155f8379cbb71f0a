//! What a repository of the hub has, and which of its files make up the model that was meant.
//!
//! The hub lists the files of a revision with their sizes, and with the SHA-256 of those that it keeps outside of git,
//! which model files are. A model is one file, or all parts of `NAME-00001-of-0000N.gguf`; what tells the models of a
//! repository apart is the quantisation at the end of their names.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::http::Client;
use crate::manifest::is_plain_name;
use crate::reference::HubReference;
use crate::wanted::{Wanted, WantedFile};
use crate::watch::{Event, Watch};
use crate::{Error, Limits, Sha256Sum};

/// Bytes of the longest list that is read.
const LISTING_BYTES_MAX: usize = 16 << 20;
/// Parts of a model at most; the reader of split files takes no more.
const PARTS_MAX: u32 = 512;
/// Names that are shown of a repository's models.
const NAMES_MAX: usize = 24;
/// What is taken where several models are and none was named.
const USUAL: &str = "Q4_K_M";
/// Files beside a model that are no model.
const NOT_MODELS: [&str; 2] = ["mmproj", "imatrix"];

/// The part of the hub's answer that is used.
#[derive(Debug, Deserialize)]
struct Answer {
    sha: Option<String>,
    siblings: Vec<Sibling>,
}

#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<Lfs>,
}

#[derive(Debug, Deserialize)]
struct Lfs {
    sha256: Option<String>,
    size: Option<u64>,
}

/// Asks the hub what the repository has and chooses the model that was meant.
pub(crate) fn find(
    client: &Client,
    limits: &Limits,
    reference: &HubReference,
    watch: &mut Watch<'_>,
) -> Result<Wanted, Error> {
    let url = client.listing_address(reference.repository(), reference.revision());
    let mut delay = limits.retry_delay;
    for _ in 1..limits.attempts_max {
        match fetch(client, &url, watch) {
            Err(reason) if reason.is_passing() => {
                watch.event(Event::Retrying { reason: &reason, delay });
                watch.wait(delay)?;
                delay = (delay * 2).min(Limits::DELAY_MAX);
            }
            text => return choose(reference, &text?),
        }
    }
    choose(reference, &fetch(client, &url, watch)?)
}

fn fetch(client: &Client, url: &str, watch: &Watch<'_>) -> Result<Vec<u8>, Error> {
    watch.check()?;
    let mut answer = client.get_whole(url)?;
    let (mut text, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        watch.check()?;
        match answer.read(&mut chunk)? {
            0 => return Ok(text),
            n if text.len() + n > LISTING_BYTES_MAX => {
                let what = format!("a list of files of more than {LISTING_BYTES_MAX} bytes");
                return Err(Error::BadAnswer { host: answer.host, what });
            }
            n => text.extend_from_slice(&chunk[..n]),
        }
    }
}

/// The files of the model that was meant.
fn choose(reference: &HubReference, text: &[u8]) -> Result<Wanted, Error> {
    let repository = || reference.repository().to_owned();
    let bad = |what: String| Error::BadListing { repository: repository(), what };
    let answer: Answer =
        serde_json::from_slice(text).map_err(|error| bad(format!("its list of files cannot be read ({error})")))?;
    let models = models(&answer.siblings);
    let (name, parts) = match reference.quantisation() {
        Some(wanted) => named(&models, wanted).ok_or_else(|| Error::NoSuchQuantisation {
            repository: repository(),
            wanted: wanted.to_owned(),
            there: names(&models),
        })?,
        None => only(&models).ok_or_else(|| match models.is_empty() {
            true => bad("it has no GGUF files".to_owned()),
            false => Error::Ambiguous { repository: repository(), there: names(&models) },
        })?,
    };
    let files = files(parts).map_err(bad)?;
    let is_commit = |sha: &String| sha.len() == 40 && sha.bytes().all(|b| b.is_ascii_hexdigit());
    Ok(Wanted {
        id: reference.id(name)?,
        repository: repository(),
        revision: answer.sha.filter(is_commit).unwrap_or_else(|| reference.revision().to_owned()),
        files,
        package: None,
    })
}

/// The parts of one model: number, how many there are, and the file.
type Parts<'a> = Vec<(u32, u32, &'a Sibling)>;

/// The models of a repository by the names that tell them apart: the quantisation, or else the file's name.
fn models(siblings: &[Sibling]) -> BTreeMap<String, Parts<'_>> {
    let mut by_stem: BTreeMap<&str, Parts<'_>> = BTreeMap::new();
    for sibling in siblings {
        let path = sibling.rfilename.as_str();
        let Some(stem) = path.strip_suffix(".gguf") else { continue };
        if NOT_MODELS.iter().any(|word| path.to_ascii_lowercase().contains(word)) {
            continue;
        }
        let (stem, part, n_parts) = split_name(stem).unwrap_or((stem, 1, 1));
        by_stem.entry(stem).or_default().push((part, n_parts, sibling));
    }
    let base = |stem: &str| stem.rsplit('/').next().unwrap_or(stem).to_owned();
    let label = |stem: &str| quantisation(&base(stem)).map_or_else(|| base(stem), str::to_owned);
    let mut n_of_label: BTreeMap<String, u32> = BTreeMap::new();
    by_stem.keys().for_each(|stem| *n_of_label.entry(label(stem)).or_default() += 1);
    // Models of one quantisation have their whole names, and of one name in several folders their paths.
    let name = |stem: &str| match n_of_label.get(&label(stem)) {
        Some(1) => label(stem),
        _ => base(stem),
    };
    let mut models: BTreeMap<String, Parts<'_>> = BTreeMap::new();
    for (stem, parts) in by_stem {
        let name = if models.contains_key(&name(stem)) { stem.replace('/', "-") } else { name(stem) };
        models.entry(name).or_insert(parts);
    }
    models
}

/// `NAME-00002-of-00003` as its name, 2 and 3.
fn split_name(stem: &str) -> Option<(&str, u32, u32)> {
    let (rest, n_parts) = stem.rsplit_once("-of-")?;
    let (name, part) = rest.rsplit_once('-')?;
    let number = |text: &str| -> Option<u32> { (text.len() == 5).then(|| text.parse().ok()).flatten() };
    Some((name, number(part)?, number(n_parts)?))
}

/// The quantisation that a name ends in, as in `Qwen3-4B-UD-Q4_K_XL` or `model.Q4_1`.
fn quantisation(base: &str) -> Option<&str> {
    let at = |separator: usize| &base[separator + 1..];
    let ends = base.bytes().enumerate().filter(|(_, b)| matches!(b, b'-' | b'.' | b'_')).map(|(i, _)| at(i));
    std::iter::once(base).chain(ends).find(|end| is_quantisation(end))
}

fn is_quantisation(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let core = upper.strip_prefix("UD-").unwrap_or(&upper);
    if ["F16", "FP16", "BF16", "F32", "FP32", "MXFP4", "MXFP4_MOE"].contains(&core) {
        return true;
    }
    let digits = core.strip_prefix("IQ").or_else(|| core.strip_prefix("TQ")).or_else(|| core.strip_prefix('Q'));
    let Some(rest) = digits else { return false };
    let mut parts = rest.split('_');
    let is_width = parts.next().is_some_and(|width| width.len() == 1 && width.bytes().all(|b| b.is_ascii_digit()));
    const WORDS: [&str; 13] = ["K", "S", "M", "L", "XL", "XS", "XXS", "NL", "0", "1", "4", "8", "MOE"];
    is_width && parts.all(|part| WORDS.contains(&part))
}

/// The model of that quantisation, of that file name, or of that quantisation in the makers' own mix.
fn named<'a, 'b>(models: &'b BTreeMap<String, Parts<'a>>, wanted: &str) -> Option<(&'b str, &'b Parts<'a>)> {
    let wanted = wanted.strip_suffix(".gguf").unwrap_or(wanted);
    let find = |name: &str| models.iter().find(|(label, _)| label.eq_ignore_ascii_case(name));
    let by_file = || {
        let base = |parts: &Parts<'_>| parts[0].2.rfilename.rsplit('/').next().map(|name| name.to_ascii_lowercase());
        models
            .iter()
            .find(|(_, parts)| base(parts).is_some_and(|b| b == format!("{}.gguf", wanted.to_ascii_lowercase())))
    };
    let found = find(wanted).or_else(by_file).or_else(|| find(&format!("UD-{wanted}")));
    found.map(|(label, parts)| (label.as_str(), parts))
}

/// The only model, or the usual one of several.
fn only<'a, 'b>(models: &'b BTreeMap<String, Parts<'a>>) -> Option<(&'b str, &'b Parts<'a>)> {
    match models.len() {
        1 => models.iter().next().map(|(label, parts)| (label.as_str(), parts)),
        _ => named(models, USUAL),
    }
}

fn names(models: &BTreeMap<String, Parts<'_>>) -> Vec<String> {
    let shown = |name: &String| name.escape_debug().take(80).collect();
    models.keys().take(NAMES_MAX).map(shown).collect()
}

/// The files of a model in order, or what is wrong with them.
fn files(parts: &Parts<'_>) -> Result<Vec<WantedFile>, String> {
    let mut parts = parts.clone();
    parts.sort_by_key(|(part, _, _)| *part);
    let n_parts = parts.first().map_or(0, |(_, n_parts, _)| *n_parts);
    let is_sound = (1..=PARTS_MAX).contains(&n_parts)
        && parts.len() == n_parts as usize
        && parts.iter().zip(1..).all(|((part, n, _), expected)| *part == expected && *n == n_parts);
    if !is_sound {
        return Err(format!("it lists {} of {n_parts} parts of the model", parts.len()));
    }
    parts.into_iter().map(|(_, _, sibling)| file(sibling)).collect()
}

fn file(sibling: &Sibling) -> Result<WantedFile, String> {
    let path = &sibling.rfilename;
    let shown: String = path.escape_debug().take(120).collect();
    let mut words = path.split('/').rev();
    let is_folder =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+".contains(&b));
    let is_plain =
        words.next().is_some_and(is_plain_name) && words.all(|word| is_folder(word) && !word.starts_with('.'));
    if !is_plain {
        return Err(format!("the name of its file \"{shown}\" is too odd for a folder here"));
    }
    let lfs = sibling.lfs.as_ref();
    let size = lfs.and_then(|lfs| lfs.size).or(sibling.size).filter(|size| *size > 0);
    let size_bytes = size.ok_or_else(|| format!("it does not say how long \"{shown}\" is"))?;
    let sha256 = lfs.and_then(|lfs| lfs.sha256.as_deref()).and_then(Sha256Sum::parse);
    Ok(WantedFile { path: path.clone(), size_bytes, sha256 })
}

#[cfg(test)]
mod tests;
