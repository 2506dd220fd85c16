//! Tickets: the data that a worker needs about the runs that it trains.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::methods::Plan;
use crate::nn::Provenance;
use crate::{Error, ErrorKind, Result, file, program};

/// The first line of a file of tickets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// [`program::numerics`] of the lab that wrote the file, which workers compare with their own.
    pub(crate) lab: String,
    /// SHA-256 of the data file beside it.
    pub(crate) data_sha256: String,
    /// [`Dataset::hash`](crate::data::Dataset::hash) of the data.
    pub(crate) data_hash: String,
    /// The kind of device to train on: `cpu`, `cuda`.
    pub(crate) device: String,
    /// Number of tickets of one task, whose runs are trained one after the other.
    pub(crate) per_task: usize,
    /// Interval at which runs write checkpoints, if they do.
    pub(crate) checkpoint_every: Option<String>,
}

/// A run to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    /// Id of the run in the run store.
    pub(crate) id: String,
    /// Attempt of the run in the ledger, which is charged already.
    pub(crate) attempt: String,
    /// Seed of the run, which names the file of its initial model.
    pub(crate) seed: u64,
    /// Provenance of the parameters of the initial model.
    pub(crate) provenance: Provenance,
    pub(crate) plan: Plan,
}

/// Writes a file of tickets. It is on disk when this returns.
///
/// # Errors
/// `Io` if it can't be written.
pub(crate) fn write(path: &Path, header: &Header, tickets: &[Ticket]) -> Result<()> {
    let mut text = Vec::new();
    let json = |e: serde_json::Error| Error::new(ErrorKind::Io, "tickets as JSON", e.to_string());
    serde_json::to_writer(&mut text, header).map_err(json)?;
    text.push(b'\n');
    for ticket in tickets {
        serde_json::to_writer(&mut text, ticket).map_err(json)?;
        text.push(b'\n');
    }
    file::write(path, text)
}

/// Reads the header of a file of tickets, and the tickets of the lines from `first` on, at most
/// `most`.
///
/// # Errors
/// `Io` if it can't be read, `CorruptData` if it is no file of tickets.
pub(crate) fn read(path: &Path, first: usize, most: usize) -> Result<(Header, Vec<Ticket>)> {
    let reading = |e: std::io::Error| {
        Error::io(format!("reading the tickets {}", path.display()), &e).fix(format!(
            "check with `{}` on two nodes that the store is in a folder that all nodes share",
            program::command("doctor --shared DIR")
        ))
    };
    let corrupt = |line: usize, e: serde_json::Error| {
        let what = format!("line {} of the tickets {}", line + 1, path.display());
        Error::new(ErrorKind::CorruptData, what, e.to_string())
            .fix("submit the grid again with this version")
    };
    let mut lines = BufReader::new(File::open(path).map_err(reading)?).lines();
    let header = lines.next().transpose().map_err(reading)?.unwrap_or_default();
    let header = serde_json::from_str(&header).map_err(|e| corrupt(0, e))?;
    let mut tickets = Vec::new();
    for (at, line) in lines.enumerate().skip(first).take(most) {
        let line = line.map_err(reading)?;
        tickets.push(serde_json::from_str(&line).map_err(|e| corrupt(at + 1, e))?);
    }
    Ok((header, tickets))
}
