use std::fs;

use super::*;
use crate::train::Seeds;

fn header() -> CheckpointHeader {
    let (format, lab) = CheckpointHeader::current_versions();
    CheckpointHeader { format, lab, id: "00ff".into(), step: 3, ..CheckpointHeader::default() }
}

fn numbers() -> CheckpointPayload {
    CheckpointPayload {
        seeds: Seeds::new(Some(7), "a run").unwrap(),
        resumed: Vec::new(),
        progress: None,
    }
}

fn written(path: &Path) -> Vec<u8> {
    let values = vec![1.0, f32::NAN, -0.0, 1e-45];
    let arrays = vec![("parameter/0.weight".to_owned(), DeviceArray::from(values))];
    write(path, &header(), &numbers(), Some(&[1, 2, 3]), &arrays).unwrap();
    fs::read(path).unwrap()
}

#[test]
fn a_checkpoint_is_read_as_it_was_written_and_only_by_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    written(&path);
    let found = read(&path).unwrap();
    assert_eq!(found.header, header());
    assert_eq!(found.header, read_header(&path).unwrap());
    assert_eq!(found.payload.seeds.noise, numbers().seeds.noise);
    assert_eq!(found.mask, Some(vec![1, 2, 3]));
    let bits: Vec<u32> = found.arrays["parameter/0.weight"].iter().map(|v| v.to_bits()).collect();
    assert_eq!(bits, [1.0f32, f32::NAN, -0.0, 1e-45].map(f32::to_bits));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_damaged_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let bytes = written(&path);
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let error = read(&path).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CorruptData, "{error}");
        assert!(error.advice().contains(&crate::program::command("runs remove")), "{error}");
    };
    (0..bytes.len()).step_by(7).for_each(|length| refused(&bytes[..length]));
    refused(&[&bytes[..], b"more"].concat());
    for at in (0..bytes.len()).step_by(5) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        refused(&changed);
    }
    // A header that announces more than there is costs no memory.
    refused(&u64::MAX.to_le_bytes());
    assert!(read_header(&path).is_err());
    fs::write(&path, bytes).unwrap();
    assert!(read(&path).is_ok());
    assert_eq!(read(folder.path()).map(|_| ()).unwrap_err().kind(), ErrorKind::Io);
}
