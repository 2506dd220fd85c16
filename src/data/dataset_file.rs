//! A data set in one file, for processes on other machines.

use std::fs;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use super::dataset::{Attributes, Dataset};
use super::digest;
use super::examples::Examples;
use super::text::StoredVocabulary;
use crate::{Error, ErrorKind, Result, file};

/// The metadata key of the [`Description`], as JSON.
const KEY: &str = "epsilab_data";

/// Attributes of a data set: everything except its examples.
#[derive(Serialize, Deserialize)]
struct Description {
    shape: Vec<usize>,
    vocabulary: Option<StoredVocabulary>,
    #[serde(flatten)]
    attributes: Attributes,
}

impl Dataset {
    /// Writes the data set to a file that only its owner may read, replacing it atomically, and
    /// returns the SHA-256 of the file.
    ///
    /// # Errors
    /// `Setting` if the examples are in files: the other machine would need all of them. `Io` if
    /// the file can't be written.
    pub(crate) fn write_file(&self, path: &Path) -> Result<String> {
        if ![self.train(), self.test()].iter().all(|part| part.is_in_memory()) {
            let what = format!("{} for runs on other machines", self.name());
            let why = "the examples are in files, but other machines get one file with all \
                       examples";
            return Err(Error::new(ErrorKind::Setting, what, why)
                .fix("load them first: let data = data.in_memory()?"));
        }
        let description = Description {
            shape: self.shape().to_vec(),
            vocabulary: self.vocabulary().map(StoredVocabulary::from_vocabulary),
            attributes: self.attributes(),
        };
        let failed = |e: String| Error::new(ErrorKind::Io, format!("storing {}", self.name()), e);
        let text = serde_json::to_string(&description).map_err(|e| failed(e.to_string()))?;
        let mut tensors = Vec::new();
        for (name, part) in [("train", self.train()), ("test", self.test())] {
            let features = part.features_flat().iter().flat_map(|x| x.to_le_bytes());
            let labels = part.labels().iter().flat_map(|label| label.to_le_bytes());
            let size: usize = self.shape().iter().product();
            let (features, labels): (Vec<u8>, Vec<u8>) = (features.collect(), labels.collect());
            let shape = vec![part.len(), size];
            tensors.push((format!("{name}.features"), Dtype::F32, shape, features));
            tensors.push((format!("{name}.labels"), Dtype::U32, vec![part.len()], labels));
        }
        let bytes = file::safetensors(&tensors, [(KEY, text)]).map_err(failed)?;
        file::write_private(path, &bytes)?;
        Ok(digest::sha256(&bytes))
    }

    /// Reads the data set in a file of [`write_file`](Self::write_file) with this SHA-256.
    ///
    /// # Errors
    /// `Io` if the file can't be read, `CorruptData` if it is another file.
    pub(crate) fn read_file(path: &Path, sha256: &str) -> Result<Self> {
        let bytes = fs::read(path)
            .map_err(|e| Error::io(format!("reading the data in {}", path.display()), &e))?;
        let found = digest::sha256(&bytes);
        if found != sha256 {
            let why = format!(
                "the SHA-256 is {found}, but {sha256} was submitted: the run would train on data \
                 other than those charged"
            );
            return Err(corrupt(path, why));
        }
        parse(&bytes).map_err(|why| corrupt(path, why))
    }
}

fn corrupt(path: &Path, why: String) -> Error {
    let what = format!("the data in {}", path.display());
    Error::new(ErrorKind::CorruptData, what, why)
        .fix("submit the grid again: the file is rewritten, and nothing is charged twice")
}

fn parse(bytes: &[u8]) -> std::result::Result<Dataset, String> {
    let message = |e: &dyn std::fmt::Display| e.to_string();
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| message(&e))?;
    let text = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
    let text = text.ok_or("the file was not written by this program")?;
    let description: Description = serde_json::from_str(text).map_err(|e| message(&e))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| message(&e))?;
    let size: usize = description.shape.iter().product();
    let part = |name: &str| -> std::result::Result<Examples, String> {
        let values = |what: &str| -> std::result::Result<Vec<[u8; 4]>, String> {
            let tensor = tensors.tensor(&format!("{name}.{what}")).map_err(|e| message(&e))?;
            Ok(tensor.data().chunks_exact(4).map(|w| [w[0], w[1], w[2], w[3]]).collect())
        };
        let features: Vec<f32> = values("features")?.into_iter().map(f32::from_le_bytes).collect();
        let labels: Vec<u32> = values("labels")?.into_iter().map(u32::from_le_bytes).collect();
        let classes = description.attributes.classes();
        if features.len() != labels.len() * size || labels.iter().any(|l| *l as usize >= classes) {
            return Err(format!("features and labels of the {name} part do not fit together"));
        }
        Ok(Examples::new(&description.shape, features, labels))
    };
    let (train, test) = (part("train")?, part("test")?);
    let vocabulary = description.vocabulary.map(StoredVocabulary::into_vocabulary).transpose();
    let vocabulary = vocabulary.map_err(|e| message(&e))?;
    Ok(Dataset::from_attributes(description.attributes, train, test, vocabulary))
}

#[cfg(test)]
mod tests {
    use crate::data::{self, Dataset};

    #[test]
    fn a_data_set_is_read_as_it_was_written_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.safetensors");
        let glyphs = data::glyphs_with(40, 10, 3).unwrap();
        let sentences = data::sentences_with(20, 5, 3).unwrap();
        for data in [&glyphs, &glyphs.split(0.7, 5).unwrap(), &glyphs.limit(20, 5), &sentences] {
            let sha256 = data.write_file(&path).unwrap();
            let read = Dataset::read_file(&path, &sha256).unwrap();
            assert_eq!((read.hash(), read.origin()), (data.hash(), data.origin()));
            assert_eq!(read.to_string(), data.to_string());
            assert_eq!(read.public(), data.public());
            assert_eq!(read.has_separate_test(), data.has_separate_test());
            assert_eq!(read.test().features_flat(), data.test().features_flat());
            assert_eq!(read.test().labels(), data.test().labels());
            assert!(read.vocabulary() == data.vocabulary());
        }
        let sha256 = glyphs.write_file(&path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = Dataset::read_file(&path, &sha256).unwrap_err();
        assert!(error.to_string().contains("SHA-256"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(Dataset::read_file(&path, &sha256).is_err());
    }
}
