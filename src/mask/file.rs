//! Masks as files.
use std::path::Path;

use super::Mask;
use crate::Result;

impl Mask {
    /// Writes the mask as a safetensors file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let _ = path;
        todo!()
    }

    /// Reads a mask that [`save`](Self::save) wrote.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let _ = path;
        todo!()
    }
}
