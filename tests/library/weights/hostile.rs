//! Files that are damaged, made to do harm, or of networks that can't be trained privately.

use std::fs;

use epsilab::nn::WeightLayout;

use super::*;

fn layout() -> WeightLayout {
    WeightLayout::timm_resnetv2()
}

#[test]
fn batch_norm_is_refused_with_the_reason() {
    let error = refused(&fixture("batch_norm.pth"), &layout());
    assert_says(
        &error,
        ErrorKind::Model,
        &[
            "layer1.0.bn1.running_mean",
            "mixes the examples of a batch",
            "torchvision",
            "resnetv2_50x1_bit",
        ],
    );
}

#[test]
fn pickles_that_name_code_are_refused_and_not_run() {
    let made = std::env::current_dir().unwrap().join("executed");
    let before = made.exists();
    for (file, named) in [
        ("code.pth", "posix.system"),
        ("legacy_code.pth", "posix.system"),
        // The call's result is dropped from the stack, so it is no part of the unpickled value.
        ("injected.pth", "os.system"),
        ("module.pth", "__main__.Net"),
    ] {
        let error = refused(&fixture(file), &layout());
        assert_says(
            &error,
            ErrorKind::CorruptData,
            &[file, named, "none of it was run", "state_dict"],
        );
        assert_eq!(made.exists(), before, "{file} was executed");
    }
}

#[test]
fn a_name_that_a_dictionary_has_twice_is_refused() {
    let error = refused(&fixture("twice.pth"), &layout());
    assert_says(&error, ErrorKind::CorruptData, &["2 tensors under 1 name"]);
    // The same tensor under a safetensors name twice.
    let tensor = r#""a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    let header = format!("{{{tensor},{tensor}}}");
    let path = folder().join("twice.safetensors");
    fs::write(&path, raw(&header, &[0; 4])).unwrap();
    assert_says(
        &refused(&path, &layout()),
        ErrorKind::CorruptData,
        &["two tensors with the name a"],
    );
}

/// A safetensors file with this header.
fn raw(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

#[test]
fn files_that_are_cut_off_anywhere_are_refused() {
    let model = bit(&images([20, 20], 5)).build().unwrap();
    for (name, layout) in [
        ("bit.safetensors", layout()),
        ("bit.pth", layout()),
        ("bit_legacy.pth", layout().prefix("state_dict.")),
    ] {
        let whole = fs::read(fixture(name)).unwrap();
        let path = folder().join(name);
        let cuts =
            (0..60).chain((60..whole.len()).step_by(whole.len() / 150)).chain([whole.len() - 1]);
        for cut in cuts {
            fs::write(&path, &whole[..cut]).unwrap();
            let error = model.load_weights(&path, &layout).unwrap_err();
            assert!(
                error.kind() == ErrorKind::CorruptData && !error.advice().is_empty(),
                "{name} cut at {cut}: {error}"
            );
        }
        fs::write(&path, &whole).unwrap();
        assert!(model.load_weights(&path, &layout).is_ok());
    }
}

/// A flipped byte is found (archives have checksums), makes a value that is not finite, or is
/// another number: it never panics or hangs.
#[test]
fn changed_bytes_are_no_panic() {
    let model = bit(&images([20, 20], 5)).build().unwrap();
    for (name, layout) in [
        ("bit.safetensors", layout()),
        ("bit.pth", layout()),
        ("bit_legacy.pth", layout().prefix("state_dict.")),
        ("code.pth", layout()),
        ("twice.pth", layout()),
    ] {
        let whole = fs::read(fixture(name)).unwrap();
        let path = folder().join(name);
        for i in 0..100 {
            let mut bytes = whole.clone();
            // The pickle and the headers are at the beginning and at the end.
            let at = if i % 2 == 0 { i * 7919 % 4000 } else { bytes.len() - 1 - i * 7919 % 3000 };
            let at = at % bytes.len();
            bytes[at] ^= 1 << (i % 8);
            fs::write(&path, &bytes).unwrap();
            let _ = model.load_weights(&path, &layout);
        }
    }
}

#[test]
fn announced_sizes_are_checked_before_anything_is_allocated() {
    let path = folder().join("weights");
    let check = |bytes: Vec<u8>, words: &[&str]| {
        fs::write(&path, bytes).unwrap();
        assert_says(&refused(&path, &layout()), ErrorKind::CorruptData, words);
    };
    // A header of 90 MB in a file of 30 bytes, and a tensor of 4 TB.
    check([&90_000_000u64.to_le_bytes()[..], b"{", &[b' '; 21]].concat(), &["90000000 bytes"]);
    let tensor = |shape: &str, end: u64| {
        format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[0,{end}]}}}}"#)
    };
    check(raw(&tensor("[1000000,1000000]", 4_000_000_000_000), &[0; 8]), &["but the file has"]);
    check(raw(&tensor("[1]", 4), &[0; 8]), &["need 66 bytes, but the file has 70"]);
    check(raw(&tensor("[18446744073709551615,4]", 16), &[0; 16]), &["header is invalid"]);
    check(raw(&tensor("[2]", 4), &[0; 4]), &["header is invalid"]);
    check(raw("{}", &[]), &["no tensors"]);
    check(raw("{\"a\":[}", &[]), &["header is invalid"]);
    // A pickle with a text of 4 GB, one that never ends, and one that keeps a value many times.
    check(b"\x80\x02X\xff\xff\xff\xffabc".to_vec(), &["truncated"]);
    check([&b"\x80\x02"[..], &b"]q\x00h\x00a".repeat(5000)].concat(), &["truncated"]);
    check([&b"\x80\x04N"[..], &[0x94; 1_100_000]].concat(), &["more than 1000000 values"]);
    // Files of other programs.
    let mut tape = vec![0; 600];
    tape[257..262].copy_from_slice(b"ustar");
    check(tape, &["before 0.1.10"]);
    check(b"PK\x05\x06".iter().chain(&[0; 18]).copied().collect(), &["data.pkl"]);
    for other in [&b"\x89HDF\r\n\x1a\n and so on"[..], b"{\"weights\": {}}", b""] {
        check(other.to_vec(), &["neither a safetensors file nor one that torch.save wrote"]);
    }
    check(b"\x80\x02}q\x00.".to_vec(), &["no tensors"]);
}

#[test]
fn values_that_are_not_finite_are_refused_with_their_place() {
    let path = folder().join("nan.safetensors");
    for value in [f32::NAN, f32::INFINITY] {
        let mut tensors = read(&fixture("bit.safetensors"));
        let (name, _, values) = tensors.last_mut().unwrap();
        values[5] = value;
        let (name, text) = (name.clone(), value.to_string());
        write(&path, &tensors);
        assert_says(&refused(&path, &layout()), ErrorKind::Model, &["value 6 of", &name, &text]);
    }
    // A float64 beyond float32, and integers.
    let data = data::from_vecs(vec![0.0; 2], &[1], vec![0, 1], 2).unwrap();
    let model = models::linear(&data).seed(1).build().unwrap();
    let file = |number: &str, data: &[u8]| {
        let half = data.len() / 2;
        let tensor = |shape: &str, from: usize, to: usize| {
            format!(r#"{{"dtype":"{number}","shape":{shape},"data_offsets":[{from},{to}]}}"#)
        };
        let (weight, bias) = (tensor("[1,2]", 0, half), tensor("[2]", half, data.len()));
        let header = format!(r#"{{"0.weight":{weight},"0.bias":{bias}}}"#);
        fs::write(&path, raw(&header, data)).unwrap();
        model.load_weights(&path, &WeightLayout::native())
    };
    let doubles =
        |values: [f64; 4]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let loaded = file("F64", &doubles([0.1, 1.0, -2.0, 3.0])).unwrap();
    assert_eq!(values(&loaded.model())[0].1, [0.1, 1.0]);
    assert!(loaded.report().to_string().contains("2 of float64"), "{}", loaded.report());
    let error = file("F64", &doubles([0.1, 1.0, 1e300, 3.0])).unwrap_err();
    assert_says(&error, ErrorKind::Model, &["value 1 of 0.bias, inf", "float64"]);
    let bf16: Vec<u8> =
        [1.5f32, -2.0, 0.25, 3.0].iter().flat_map(|v| v.to_le_bytes()[2..].to_vec()).collect();
    assert_eq!(values(&file("BF16", &bf16).unwrap().model())[0].1, [1.5, -2.0]);
    assert_says(&file("I32", &[0; 16]).unwrap_err(), ErrorKind::Model, &["i32", "floating-point"]);
}

#[test]
fn only_regular_files_are_read() {
    let folder = folder();
    assert_says(&refused(&folder, &layout()), ErrorKind::Io, &["not a regular file"]);
    assert_says(&refused(&folder.join("none"), &layout()), ErrorKind::Io, &["none"]);
    #[cfg(unix)]
    {
        // Caches of downloaded files are full of symbolic links.
        let link = folder.join("link");
        std::os::unix::fs::symlink(fixture("bit.pth"), &link).unwrap();
        let model = bit(&images([20, 20], 5)).build().unwrap();
        assert!(model.load_weights(&link, &layout()).is_ok());
        let pipe = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_says(&refused(&pipe, &layout()), ErrorKind::Io, &["not a regular file"]);
    }
}
