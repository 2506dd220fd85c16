//! The images of a shard and their labels: members of one name with different endings.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::archive::{ArchiveMember, for_each_file};
use crate::data::decompressed_file::{cannot_read, corrupt};
use crate::data::digest::format_count;
use crate::data::images::location::{ImageLocation, MAX_IMAGE_BYTES};
use crate::data::table::CLASSES;
use crate::{Error, Result};

/// The content of a shard.
pub(super) struct Shard {
    /// Images with their labels, in the order of their keys.
    pub(super) samples: Vec<(ImageLocation, u32)>,
    /// Number of members that are neither an image nor a label.
    pub(super) skipped: usize,
}

/// Role of a member of a shard, by its ending.
enum Role {
    Image,
    Label,
    Archive,
}

/// The parts of a sample that were found.
#[derive(Default)]
struct PartialSample {
    image: Option<ArchiveMember>,
    label: Option<u32>,
}

/// Lists a shard. Only labels are read.
///
/// # Errors
/// As [`for_each_file`]; for an image without a label or a label without an image, for two of them,
/// for a label that is no class number, and for an archive inside the archive.
pub(super) fn list_shard(path: &Path) -> Result<Shard> {
    let mut samples: HashMap<String, PartialSample> = HashMap::new();
    let (mut keys, mut skipped) = (Vec::new(), 0);
    for_each_file(path, |found, content| {
        let Some((key, role)) =
            key(&found.name).and_then(|(key, ending)| Some((key, role(&ending)?)))
        else {
            skipped += 1;
            return Ok(());
        };
        let parts = samples.entry(key.to_owned()).or_insert_with(|| {
            keys.push(key.to_owned());
            PartialSample::default()
        });
        match role {
            Role::Archive => {
                return Err(member_error(path, &found.name, "an archive inside the archive")
                    .fix("name the inner archives as shards of their own"));
            }
            Role::Image if parts.image.is_some() => {
                return Err(duplicate_member_error(path, key, "image"));
            }
            Role::Image if found.length > MAX_IMAGE_BYTES as u64 => {
                let most = format_count(MAX_IMAGE_BYTES);
                return Err(member_error(
                    path,
                    &found.name,
                    &format!("a file of more than {most} bytes"),
                ));
            }
            Role::Image => parts.image = Some(found),
            Role::Label if parts.label.is_some() => {
                return Err(duplicate_member_error(path, key, "label"));
            }
            Role::Label => parts.label = Some(label(path, &found.name, content)?),
        }
        Ok(())
    })?;
    let shard: Arc<Path> = path.into();
    let mut complete = Vec::with_capacity(keys.len());
    for key in keys {
        match samples.remove(&key).unwrap_or_default() {
            PartialSample {
                image: Some(ArchiveMember { name, offset: from, length }),
                label: Some(label),
            } => {
                let (shard, length) = (shard.clone(), length as usize);
                complete.push((
                    ImageLocation::Member { shard, name: name.into(), from, length },
                    label,
                ));
            }
            PartialSample { image: Some(_), .. } => {
                return Err(missing_member_error(path, &key, "an image", "label", ".cls"));
            }
            _ => return Err(missing_member_error(path, &key, "a label", "image", ".jpg")),
        }
    }
    Ok(Shard { samples: complete, skipped })
}

/// Returns the key of a member and its ending in lower case: what comes before and after the first
/// dot of its file name. `None` for a name without ending and for a hidden file.
fn key(name: &str) -> Option<(&str, String)> {
    let start = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = start + name[start..].find('.')?;
    (dot > start).then(|| (&name[..dot], name[dot + 1..].to_lowercase()))
}

/// Returns the role of a member with this ending; `None` if it is skipped.
fn role(ending: &str) -> Option<Role> {
    match ending {
        "jpg" | "jpeg" | "png" | "webp" => Some(Role::Image),
        "cls" => Some(Role::Label),
        "tar" | "tgz" | "zip" => Some(Role::Archive),
        _ if ending.starts_with("tar.") || ending.ends_with(".tar") => Some(Role::Archive),
        _ => None,
    }
}

/// Reads a class number in decimal digits, with white space around it.
fn label(path: &Path, name: &str, content: &mut dyn Read) -> Result<u32> {
    /// Longest content of a label, in bytes.
    const LONGEST: u64 = 64;
    let mut bytes = Vec::new();
    content.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|e| cannot_read(path, &e))?;
    let text = String::from_utf8_lossy(&bytes);
    let number = text.trim();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let label = if is_number { number.parse::<usize>().ok() } else { None };
    let known = label.filter(|label| label < CLASSES.end() && bytes.len() as u64 <= LONGEST);
    known.map(|label| label as u32).ok_or_else(|| {
        let shown: String = number.chars().take(20).collect();
        member_error(path, name, &format!("no class number: it holds `{}`", shown.escape_debug()))
            .fix("a label is a whole number from 0 to 65,535 in decimal digits")
    })
}

fn member_error(path: &Path, name: &str, what: &str) -> Error {
    corrupt(path, format!("the member `{name}` is {what}"))
}

fn duplicate_member_error(path: &Path, key: &str, what: &str) -> Error {
    corrupt(path, format!("the key `{key}` has two {what}s"))
        .fix("each key names one image and one label: name them differently")
}

fn missing_member_error(
    path: &Path,
    key: &str,
    present: &str,
    missing: &str,
    ending: &str,
) -> Error {
    corrupt(path, format!("the key `{key}` has {present} and no {missing}")).fix(format!(
        "each image KEY.jpg, .png or .webp has its class number in KEY.cls: add the member \
             `{key}{ending}`, or remove the other"
    ))
}
