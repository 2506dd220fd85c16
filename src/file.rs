//! Writing of files that other processes see whole or not at all.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use safetensors::{Dtype, tensor::TensorView};

use crate::{Error, Result};

/// First bytes of the text that stands for a large file in a git repository.
const LFS_MAGIC: &[u8] = b"version https://git-lfs.github.com/spec/";
/// Reason and advice for such a text in place of the file.
pub(crate) const LFS_POINTER: &str = "this is a Git LFS pointer, not the file itself";
pub(crate) const LFS_ADVICE: &str = "run git lfs pull in its repository, or download the file";

/// Returns whether a file that begins so is a pointer of Git LFS.
pub(crate) fn is_lfs_pointer(beginning: &[u8]) -> bool {
    beginning.starts_with(LFS_MAGIC)
}

/// Permissions of results, less the mask of the process.
const RESULT_FILE_MODE: u32 = 0o666;

/// Permissions of what only its owner may read.
const PRIVATE_FILE_MODE: u32 = 0o600;

/// Writes a file and the folders above it. An existing file is replaced atomically: after a crash,
/// or on a full disk, it is the old one. What is no regular file, such as a pipe, is written to.
///
/// # Errors
/// `Io` if the file can't be written, or is write-protected.
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
    let path = path.as_ref();
    folder_of(path)
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| replace(path, bytes.as_ref(), RESULT_FILE_MODE))
        .map_err(|e| failed(path, &e))?;
    // Not every file system can synchronise a folder.
    let _ = sync_parent_dir(path);
    Ok(())
}

/// Writes a file that only its owner may read, in a folder that exists, as [`write`] does.
///
/// # Errors
/// `Io` if the file can't be written.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, bytes, PRIVATE_FILE_MODE).map_err(|e| failed(path, &e))?;
    let _ = sync_parent_dir(path);
    Ok(())
}

/// Replaces a file atomically. When it returns, file and folder entry are on disk.
pub(crate) fn replace_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, RESULT_FILE_MODE)?;
    sync_parent_dir(path)
}

/// Replaces a file atomically. When it returns, the file is on disk.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let found = fs::metadata(path).ok();
    match &found {
        Some(found) if !found.is_file() => return File::create(path)?.write_all(bytes),
        // Replacing would not ask for the permission to write.
        Some(found) if found.permissions().readonly() => {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the file is write-protected",
            ));
        }
        _ => {}
    }
    // Of a link, the file that it leads to is replaced.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".epsilab-").suffix(".part");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    let mut file = builder.tempfile_in(folder_of(&real).unwrap_or(Path::new(".")))?;
    if let Some(found) = found.filter(|_| mode == RESULT_FILE_MODE) {
        file.as_file().set_permissions(found.permissions())?;
    }
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(&real)?;
    Ok(())
}

/// A tensor of a safetensors file: its name, type, shape and bytes.
pub(crate) type StoredTensor = (String, Dtype, Vec<usize>, Vec<u8>);

/// Returns the bytes of a safetensors file with these tensors and texts.
///
/// # Errors
/// The message of the format's library if it can't hold these tensors.
pub(crate) fn safetensors<const N: usize>(
    tensors: &[StoredTensor],
    texts: [(&str, String); N],
) -> std::result::Result<Vec<u8>, String> {
    let mut views = Vec::with_capacity(tensors.len());
    for (name, kind, shape, bytes) in tensors {
        let view = TensorView::new(*kind, shape.clone(), bytes).map_err(|e| e.to_string())?;
        views.push((name, view));
    }
    let texts = texts.map(|(key, text)| (key.to_owned(), text));
    ::safetensors::serialize(views, Some(HashMap::from(texts))).map_err(|e| e.to_string())
}

/// Makes a new directory entry durable. Only Unix supports syncing a folder.
pub(crate) fn sync_parent_dir(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    File::open(folder_of(path).unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all())
}

/// Creates a folder, and checks that the disk has room for this many bytes in it.
///
/// # Errors
/// `Io` if the folder can't be created or the bytes don't fit.
pub fn check_disk_space(folder: &Path, bytes: u64) -> Result<()> {
    fs::create_dir_all(folder)
        .and_then(|()| tempfile::tempfile_in(folder))
        .and_then(|file| reserve(&file, bytes))
        .map_err(|e| Error::io(format!("free space for files in {}", folder.display()), &e))
}

/// Extends a file to this length, so that the file system allocates the space.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let length = libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
        // SAFETY: a call on a descriptor that is open.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
            0 => return Ok(()),
            libc::EOPNOTSUPP | libc::EINVAL => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
    let block = [0; 1 << 16];
    let mut file = file;
    for _ in 0..bytes.div_ceil(block.len() as u64) {
        file.write_all(&block)?;
    }
    file.sync_data()
}

/// Returns the error for a file that can't be written.
fn failed(path: &Path, error: &io::Error) -> Error {
    use io::ErrorKind::{
        AlreadyExists, IsADirectory, NotADirectory, PermissionDenied, ReadOnlyFilesystem,
    };
    let written = Error::io(format!("writing {}", path.display()), error);
    match error.kind() {
        AlreadyExists | IsADirectory | NotADirectory | PermissionDenied | ReadOnlyFilesystem => {
            written.fix("name a file in a folder that you can write")
        }
        _ => written,
    }
}

/// Returns the folder of a file; `None` for the current one.
fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty())
}
