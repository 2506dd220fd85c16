//! Masks as files: safetensors, with what their choice has cost in the metadata.

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::Path;

use super::covered::{Covered, Origin};
use super::{Kept, Mask};
use crate::nn::{read_regular, unread, write_in_one_step};
use crate::{Error, ErrorKind, Result};

/// The metadata's key: what makes a safetensors file a mask.
const KEY: &str = "epsilab_mask";

/// The key of the lab's models, for a helpful word.
const MODEL: &str = "epsilab";

/// The version of the description written here; older ones stay readable.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Description {
    format: u32,
    /// The parameters in their order, which safetensors does not keep.
    tensors: Vec<String>,
    zeroing: bool,
    origin: Origin,
    /// Of all flags in this order: against accidents, not against forgery.
    sha256: String,
}

/// Read before the rest, which a later version may have changed.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Mask {
    /// Writes the mask as a safetensors file: one boolean per coordinate under the parameter's
    /// path; how it was made and what that has cost in the metadata. An existing file is replaced
    /// in one step, never left half-written. Saliencies are not stored.
    ///
    /// A mask that a ledger has paid for names, in its file, the data by their hash and the run
    /// that was charged. Who holds all other examples could test one by that hash: such a file is
    /// for the project, not for others.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let failed = |e: String| Error::new(ErrorKind::Model, "saving a mask", e);
        let bytes: Vec<Vec<u8>> = self.tensors().iter().map(bytes_of).collect();
        let about = Description {
            format: FORMAT,
            tensors: self.tensors().iter().map(|tensor| tensor.path.clone()).collect(),
            zeroing: self.is_zeroing(),
            origin: self.origin().clone(),
            sha256: sha256_of(&bytes),
        };
        let text = serde_json::to_string(&about).map_err(|e| failed(e.to_string()))?;
        let mut views = Vec::with_capacity(bytes.len());
        for (tensor, bytes) in self.tensors().iter().zip(&bytes) {
            let view = TensorView::new(Dtype::BOOL, tensor.shape.clone(), bytes);
            views.push((tensor.path.as_str(), view.map_err(|e| failed(e.to_string()))?));
        }
        let metadata = HashMap::from([(KEY.to_owned(), text)]);
        let file =
            safetensors::serialize(views, Some(metadata)).map_err(|e| failed(e.to_string()))?;
        write_in_one_step(path.as_ref(), &file, "mask")
    }

    /// Reads a mask that [`save`](Self::save) wrote: the same mask, but for saliencies.
    ///
    /// # Guarantee
    /// The mask keeps its origin, and with it what covers its choice: data-free, released and
    /// charged, assumed, or not private. Damage is found; a file that somebody edited is not, for
    /// nothing in it is secret. A mask from hands you do not trust is an assumption, whatever it
    /// says of itself.
    ///
    /// # Errors
    /// Kind `Io` if the file can't be read; kind `Model` if it is no mask of the lab's, of a later
    /// version, or damaged.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = read_regular(path).map_err(|e| unread(path, "mask", "Mask::save", &e))?;
        read(&bytes).map_err(|why| match why {
            Wrong::Newer(format) => {
                let what = format!("the mask {} has format {format}", path.display());
                let why = format!("this version of the lab reads formats up to {FORMAT}");
                Error::new(ErrorKind::Model, what, why).fix("update the lab")
            }
            Wrong::Model => {
                let what = format!("the file {} is not a mask", path.display());
                Error::new(ErrorKind::Model, what, "it is a model")
                    .fix("read it with models::load(path)")
            }
            Wrong::Other(why) => {
                let what = format!("the file {} is not a mask", path.display());
                Error::new(ErrorKind::Model, what, why).fix("load a file that Mask::save wrote")
            }
        })
    }
}

/// Why a file can't be taken.
enum Wrong {
    Newer(u32),
    Model,
    Other(String),
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

fn read(bytes: &[u8]) -> std::result::Result<Mask, Wrong> {
    let (_, header) = SafeTensors::read_metadata(bytes)
        .map_err(|e| format!("it is no safetensors file ({e})"))?;
    let file = SafeTensors::deserialize(bytes).map_err(|e| format!("it is damaged ({e})"))?;
    let metadata = header.metadata().clone().unwrap_or_default();
    let Some(text) = metadata.get(KEY) else {
        if metadata.contains_key(MODEL) {
            return Err(Wrong::Model);
        }
        return Err("it is a safetensors file of another program".to_owned().into());
    };
    let unread = |e: serde_json::Error| format!("its description can't be read ({e})");
    let Version { format } = serde_json::from_str(text).map_err(unread)?;
    if format > FORMAT {
        return Err(Wrong::Newer(format));
    }
    let about: Description = serde_json::from_str(text).map_err(unread)?;
    check_cover(&about.origin)?;
    let tensors = about.tensors.iter().map(|path| tensor(&file, path));
    let tensors: Vec<Kept> = tensors.collect::<std::result::Result<_, _>>()?;
    if tensors.len() != file.len() {
        return Err(format!("it holds {} tensors, not {}", file.len(), tensors.len()).into());
    }
    if sha256_of(&tensors.iter().map(bytes_of).collect::<Vec<_>>()) != about.sha256 {
        return Err("it is damaged (its flags are not those that were written)".to_owned().into());
    }
    let mask = Mask::made(tensors, about.origin).map_err(|e| e.to_string())?;
    Ok(if about.zeroing { mask.zeroing() } else { mask })
}

/// A mask without a word on what covers its choice would pass for one that is covered.
fn check_cover(origin: &Origin) -> std::result::Result<(), String> {
    if origin.covered.is_empty() {
        return Err("it does not say what its choice has cost".to_owned());
    }
    for covered in &origin.covered {
        if let Covered::Released { event, .. } = covered {
            event.check().map_err(|e| format!("its release is none ({e})"))?;
        }
    }
    Ok(())
}

fn tensor(file: &SafeTensors<'_>, path: &str) -> std::result::Result<Kept, String> {
    let tensor = file.tensor(path).map_err(|_| format!("{path} is missing"))?;
    if tensor.dtype() != Dtype::BOOL {
        return Err(format!("{path} is {:?} where a mask has BOOL", tensor.dtype()));
    }
    if let Some(flag) = tensor.data().iter().find(|&&flag| flag > 1) {
        return Err(format!("it is damaged (a flag of {path} is {flag}, not 0 or 1)"));
    }
    let kept = tensor.data().iter().map(|&flag| flag == 1).collect();
    Ok(Kept { path: path.to_owned(), shape: tensor.shape().to_vec(), kept })
}

fn bytes_of(tensor: &Kept) -> Vec<u8> {
    tensor.kept.iter().map(|&kept| u8::from(kept)).collect()
}

/// Of the flags, tensor by tensor.
fn sha256_of(tensors: &[Vec<u8>]) -> String {
    let mut hash = Sha256::new();
    tensors.iter().for_each(|bytes| hash.update(bytes));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
