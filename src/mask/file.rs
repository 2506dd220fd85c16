//! Masks as safetensors files; the metadata records the method of each mask and the privacy of its
//! choice.

use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use std::path::Path;

use super::origin::{MaskOrigin, PrivacyStatus};
use super::{Mask, MaskTensor};
use crate::data::digest::sha256;
use crate::file::StoredTensor;
use crate::nn::{read_error, read_regular_file};
use crate::{Error, ErrorKind, Result, file};

/// The metadata key that marks a safetensors file as a mask.
const KEY: &str = "epsilab_mask";

/// The metadata key of model files, for a better error message.
const MODEL_KEY: &str = "epsilab";

/// Version of the description in files that are written. Older versions remain readable.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Description {
    format: u32,
    /// Parameter paths in order; safetensors sorts its tensors.
    tensors: Vec<String>,
    zeroing: bool,
    origin: MaskOrigin,
    /// SHA-256 of all flags in this order. It detects damage, not forgery.
    sha256: String,
}

/// Format version of a description, the field that every version has; it is read first.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Mask {
    /// Writes the mask as a safetensors file.
    ///
    /// The file holds one BOOL per coordinate under the parameter's path; its metadata hold the
    /// [`MaskOrigin`]. An existing file is replaced atomically. Saliencies are not stored.
    ///
    /// The file of a mask that was released privately names the run that was charged and the hash
    /// of the data set. Someone who holds all examples but one can test guesses of that example
    /// against the hash, so do not publish such a file.
    ///
    /// # Errors
    /// `Io` if the file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        file::write(path, self.to_bytes()?)
    }

    /// Returns the bytes of the file that [`save`](Self::save) writes.
    ///
    /// # Errors
    /// `Model` if the mask can't be written as a safetensors file.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let failed = |e: String| Error::new(ErrorKind::Model, "saving a mask", e);
        let bytes: Vec<Vec<u8>> = self.tensors().iter().map(bytes_of).collect();
        let description = Description {
            format: FORMAT,
            tensors: self.tensors().iter().map(|tensor| tensor.path.clone()).collect(),
            zeroing: self.is_zeroing(),
            origin: self.origin().clone(),
            sha256: sha256(&bytes.concat()),
        };
        let text = serde_json::to_string(&description).map_err(|e| failed(e.to_string()))?;
        let tensors = self.tensors().iter().zip(bytes);
        let stored = |(tensor, bytes): (&MaskTensor, Vec<u8>)| {
            (tensor.path.clone(), Dtype::BOOL, tensor.shape.clone(), bytes)
        };
        let tensors: Vec<StoredTensor> = tensors.map(stored).collect();
        file::safetensors(&tensors, [(KEY, text)]).map_err(failed)
    }

    /// Reads a mask that [`save`](Self::save) wrote. Its saliencies are not restored.
    ///
    /// # Guarantee
    /// The mask keeps its [`MaskOrigin`] and so its [`PrivacyStatus`]. Damage is detected; a
    /// deliberate edit is not, because the file is not signed. Whoever uses a mask of somebody
    /// else assumes that its stated origin is true.
    ///
    /// # Errors
    /// `Io` if the file can't be read; `Model` if it is not a mask file, has a later version, or is
    /// damaged.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes =
            read_regular_file(path).map_err(|e| read_error(path, "mask", "Mask::save", &e))?;
        Self::from_bytes(&bytes, path)
    }

    /// Reads a mask from the bytes of [`to_bytes`](Self::to_bytes); `path` is their file, for
    /// errors.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self> {
        let refused = |why: String, fix: &str| {
            let what = format!("the file {} is not a mask", path.display());
            Error::new(ErrorKind::Model, what, why).fix(fix)
        };
        let other = |why: String| refused(why, "load a file that Mask::save wrote");
        let (_, header) = SafeTensors::read_metadata(bytes)
            .map_err(|e| other(format!("the file is not a safetensors file ({e})")))?;
        let file = SafeTensors::deserialize(bytes)
            .map_err(|e| other(format!("the file is damaged ({e})")))?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let Some(text) = metadata.get(KEY) else {
            return Err(if metadata.contains_key(MODEL_KEY) {
                refused("the file holds a model".to_owned(), "read it with models::load(path)")
            } else {
                other("the safetensors file is from another program".to_owned())
            });
        };
        let unread = |e: serde_json::Error| other(format!("the description can't be read ({e})"));
        let Version { format } = serde_json::from_str(text).map_err(unread)?;
        if format > FORMAT {
            let what = format!("the mask {} has format {format}", path.display());
            let why = format!("this version of the lab reads formats up to {FORMAT}");
            return Err(Error::new(ErrorKind::Model, what, why).fix("update the lab"));
        }
        described(&file, serde_json::from_str(text).map_err(unread)?).map_err(other)
    }
}

/// Creates the mask of a description.
fn described(
    file: &SafeTensors<'_>,
    description: Description,
) -> std::result::Result<Mask, String> {
    check_origin(&description.origin)?;
    let tensors = description.tensors.iter().map(|path| tensor(file, path));
    let tensors: Vec<MaskTensor> = tensors.collect::<std::result::Result<_, _>>()?;
    if tensors.len() != file.len() {
        return Err(format!("the file holds {} tensors, not {}", file.len(), tensors.len()));
    }
    if sha256(&tensors.iter().flat_map(bytes_of).collect::<Vec<_>>()) != description.sha256 {
        return Err("the file is damaged (the hash of its flags does not match)".to_owned());
    }
    let mask = Mask::with_origin(tensors, description.origin).map_err(|e| e.to_string())?;
    Ok(if description.zeroing { mask.with_zeroing() } else { mask })
}

/// Refuses an origin without a privacy status, which would pass for a private one.
fn check_origin(origin: &MaskOrigin) -> std::result::Result<(), String> {
    if origin.privacy.is_empty() {
        return Err("the file does not state what the choice of the mask reveals".to_owned());
    }
    for status in &origin.privacy {
        if let PrivacyStatus::Released { event, .. } = status {
            event.check().map_err(|e| format!("the release is not valid ({e})"))?;
        }
    }
    Ok(())
}

fn tensor(file: &SafeTensors<'_>, path: &str) -> std::result::Result<MaskTensor, String> {
    let tensor = file.tensor(path).map_err(|_| format!("{path} is missing"))?;
    if tensor.dtype() != Dtype::BOOL {
        return Err(format!("{path} has type {:?} instead of BOOL", tensor.dtype()));
    }
    if let Some(flag) = tensor.data().iter().find(|&&flag| flag > 1) {
        return Err(format!("the file is damaged (a flag of {path} is {flag}, not 0 or 1)"));
    }
    let kept = tensor.data().iter().map(|&flag| flag == 1).collect();
    Ok(MaskTensor { path: path.to_owned(), shape: tensor.shape().to_vec(), kept })
}

fn bytes_of(tensor: &MaskTensor) -> Vec<u8> {
    tensor.kept.iter().map(|&kept| u8::from(kept)).collect()
}
