//! Files of logits, to compare runs: a magic, the vocabulary's size, then for each scored position
//! the target id and the log probabilities of all ids as halves, little-endian.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use half::f16;

use crate::failure::{Failure, Outcome};

const MAGIC: &[u8; 8] = b"ZINCLOG1";

/// Writes under a temporary name; the file appears when it is whole.
pub(crate) struct LogitWriter {
    out: BufWriter<File>,
    partial: PathBuf,
    target: PathBuf,
}

impl LogitWriter {
    /// Begins a file for a vocabulary.
    pub(crate) fn create(path: &Path, n_vocab: usize) -> Result<LogitWriter, Failure> {
        let partial = PathBuf::from(format!("{}.partial", path.display()));
        let file = File::create(&partial).map_err(|e| failed("create", &partial, &e))?;
        let mut writer = LogitWriter { out: BufWriter::new(file), partial, target: path.to_owned() };
        let mut header = MAGIC.to_vec();
        header.extend((n_vocab as u64).to_le_bytes());
        writer.write(&header)?;
        Ok(writer)
    }

    /// Adds a position: the id that came next, the logits, and their log-sum-exp.
    pub(crate) fn push(&mut self, target: u32, logits: &[f32], sum: f64) -> Outcome {
        let mut row = target.to_le_bytes().to_vec();
        row.extend(logits.iter().flat_map(|&x| f16::from_f64(f64::from(x) - sum).to_le_bytes()));
        self.write(&row)
    }

    /// Gives the file its name.
    pub(crate) fn finish(mut self) -> Outcome {
        self.out.flush().map_err(|e| failed("write", &self.partial, &e))?;
        std::fs::rename(&self.partial, &self.target).map_err(|e| failed("rename", &self.partial, &e))
    }

    fn write(&mut self, bytes: &[u8]) -> Outcome {
        self.out.write_all(bytes).map_err(|e| failed("write", &self.partial, &e))
    }
}

/// A scored position.
pub(crate) struct Scored<'a> {
    /// The id that came next.
    pub(crate) target: u32,
    /// Log probabilities of all ids.
    pub(crate) logprobs: &'a [f32],
}

/// Reads a file position by position.
pub(crate) struct LogitReader {
    input: BufReader<File>,
    path: PathBuf,
    row: Vec<u8>,
    logprobs: Vec<f32>,
}

impl LogitReader {
    /// Opens a file made for the same vocabulary.
    pub(crate) fn open(path: &Path, n_vocab: usize) -> Result<LogitReader, Failure> {
        let file = File::open(path).map_err(|e| failed("open", path, &e))?;
        let mut reader = LogitReader {
            input: BufReader::new(file),
            path: path.to_owned(),
            row: vec![0; 4 + 2 * n_vocab],
            logprobs: vec![0.0; n_vocab],
        };
        let mut header = [0; 16];
        reader.input.read_exact(&mut header).map_err(|e| failed("read", path, &e))?;
        let (magic, n) = header.split_at(8);
        let n = u64::from_le_bytes([n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]]);
        if magic != MAGIC {
            return Err(Failure::usage(format!("{} is not a file of --save-logits", path.display())));
        }
        if n != n_vocab as u64 {
            return Err(Failure::usage(format!(
                "{} is of a vocabulary of {n}, this model has {n_vocab}",
                path.display()
            )));
        }
        Ok(reader)
    }

    /// The next position.
    pub(crate) fn next(&mut self) -> Result<Scored<'_>, Failure> {
        self.input.read_exact(&mut self.row).map_err(|e| failed("read", &self.path, &e))?;
        let (id, halves) = self.row.split_at(4);
        for (to, from) in self.logprobs.iter_mut().zip(halves.chunks_exact(2)) {
            *to = f16::from_le_bytes([from[0], from[1]]).to_f32();
        }
        Ok(Scored { target: u32::from_le_bytes([id[0], id[1], id[2], id[3]]), logprobs: &self.logprobs })
    }
}

fn failed(action: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot {action} {}: {error}", path.display()))
}
