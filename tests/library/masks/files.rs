//! Mask files: round trips, and files that are refused.

use super::*;
use epsilab::mask::{DpSnip, Mask, MaskTensor, PrivacyStatus, RandomMask, Snip};
use std::fs;

/// A model and mask of many layers, whose paths in alphabetical order are not in layer order.
fn deep_model_and_mask(data: &Dataset) -> Result<(Model, Mask)> {
    let model = models::mlp(data, &[6; 7]).seed(1).build()?;
    let mask = RandomMask::keep(0.4).seed(2).mask(&model)?;
    let paths: Vec<&str> = mask.tensors().iter().map(|tensor| tensor.path.as_str()).collect();
    assert!(!paths.is_sorted() && paths.len() == 8, "{paths:?}");
    Ok((model, mask))
}

#[test]
fn masks_survive_a_round_trip() -> Result<()> {
    let data = glyphs(60, 51);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mask.safetensors");
    let (model, mask) = deep_model_and_mask(&data)?;
    for mask in [&mask, &mask.with_zeroing()] {
        mask.save(&path)?;
        let loaded = Mask::load(&path)?;
        assert_eq!(&loaded, mask);
        assert_eq!(loaded.fingerprint(), mask.fingerprint());
        assert_eq!(loaded.to_weights(model.network())?, mask.to_weights(model.network())?);
    }
    assert!(Mask::load(&path)?.is_zeroing());
    // No temporary file is left.
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);

    let user_defined = Mask::new(vec![MaskTensor {
        path: "0.weight".into(),
        shape: vec![3],
        kept: vec![true, false, true],
    }])?;
    let released = DpSnip::keep(0.3).epsilon_delta(Epsilon(0.7), Delta(1e-5));
    let released = released.mask(&model, &data)?;
    for mask in [user_defined, Snip::keep(0.3).mask(&model, &data)?, released.clone()] {
        mask.save(&path)?;
        let loaded = Mask::load(&path)?;
        assert_eq!((loaded.tensors(), loaded.origin()), (mask.tensors(), mask.origin()));
        assert!(loaded.saliency().is_none());
    }
    let privacy = Mask::load(&path)?.origin().privacy.clone();
    assert!(
        matches!(&privacy[..], [PrivacyStatus::Released { data: d, .. }] if d == data.origin())
    );
    Ok(())
}

/// The file with changes to its JSON header and its data.
fn edited(bytes: &[u8], change: impl FnOnce(&mut serde_json::Value, &mut Vec<u8>)) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let mut header = serde_json::from_slice(&bytes[8..8 + length]).expect("JSON");
    let mut data = bytes[8 + length..].to_vec();
    change(&mut header, &mut data);
    let header = serde_json::to_vec(&header).expect("JSON");
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

/// Changes the mask description in a header.
fn edit_description(header: &mut serde_json::Value, change: impl FnOnce(&mut serde_json::Value)) {
    let text = &mut header["__metadata__"]["epsilab_mask"];
    let mut about = serde_json::from_str(text.as_str().expect("a text")).expect("JSON");
    change(&mut about);
    *text = about.to_string().into();
}

#[test]
fn invalid_files_are_refused_with_the_reason() -> Result<()> {
    let data = glyphs(60, 52);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mask.safetensors");
    let (model, mask) = deep_model_and_mask(&data)?;
    let refused = |kind: ErrorKind, part: &str| {
        let error = Mask::load(&path).expect_err(part);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part), "{part}: {error}");
        assert!(error.to_string().contains("mask.safetensors"), "{error}");
    };
    refused(ErrorKind::Io, "reading the mask");
    fs::write(&path, b"hello").expect("written");
    refused(ErrorKind::Model, "not a safetensors file");
    model.save(&path)?;
    refused(ErrorKind::Model, "holds a model");
    mask.save(&path)?;
    assert!(models::load(&path).is_err(), "a mask was loaded as a model");

    let whole = fs::read(&path).expect("read");
    fs::write(&path, edited(&whole, |_, _| ())).expect("written");
    assert_eq!(Mask::load(&path)?, mask, "rewriting the header changed the mask");
    type Edit = fn(&mut serde_json::Value, &mut Vec<u8>);
    let edits: [(&str, Edit); 12] = [
        ("not 0 or 1", |_, data| data[17] = 2),
        ("does not match", |_, data| data[17] ^= 1),
        ("another program", |header, _| header["__metadata__"] = serde_json::json!({"a": "b"})),
        ("another program", |header, _| {
            header.as_object_mut().expect("an object").remove("__metadata__");
        }),
        ("format 2", |header, _| {
            edit_description(header, |about| {
                *about = serde_json::json!({"format": 2, "new": true})
            });
        }),
        ("can't be read", |header, _| {
            edit_description(header, |about| about["origin"] = "nowhere".into());
        }),
        ("can't be read", |header, _| {
            edit_description(header, |about| about["origin"]["covered"][0] = "free".into());
        }),
        ("does not state what the choice of the mask reveals", |header, _| {
            edit_description(header, |about| about["origin"]["covered"] = serde_json::json!([]));
        }),
        ("the release is not valid", |header, _| {
            let event = serde_json::json!(
                {"kind": "gaussian", "noise_multiplier": -1.0, "count": 1});
            let what = serde_json::json!({"event": event, "data": "d", "run": "r"});
            let released = serde_json::json!([{"released": what}]);
            edit_description(header, |about| about["origin"]["covered"] = released);
        }),
        ("no.weight is missing", |header, _| {
            edit_description(header, |about| about["tensors"][0] = "no.weight".into());
        }),
        ("8 tensors, not 7", |header, _| {
            edit_description(header, |about| {
                about["tensors"].as_array_mut().expect("a list").pop();
            });
        }),
        ("U8 instead of BOOL", |header, _| header["1.weight"]["dtype"] = "U8".into()),
    ];
    for (part, edit) in edits {
        fs::write(&path, edited(&whole, edit)).expect("written");
        refused(ErrorKind::Model, part);
    }
    for length in [0, 7, 9, 200, whole.len() - 1] {
        fs::write(&path, &whole[..length]).expect("written");
        assert_eq!(Mask::load(&path).expect_err("cut").kind(), ErrorKind::Model);
    }
    assert!(mask.save(path.join("not/there")).is_err());
    Ok(())
}
