//! Checkpoints with values beside the tensors, sharded weights and pointers to files.

use std::fs::{self, File};
use std::io::Write;

use epsilab::nn::{AxisOrder, LoadedWeights, WeightLayout};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

/// Instructions of a pickle that push a text.
fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// Instructions that push an import.
fn import(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

/// Instructions that push a tuple of these values.
fn tuple(values: &[Vec<u8>]) -> Vec<u8> {
    [&b"("[..], &values.concat(), b"t"].concat()
}

/// Instructions that call an import with these arguments.
fn call(import: Vec<u8>, arguments: &[Vec<u8>]) -> Vec<u8> {
    [import, tuple(arguments), b"R".to_vec()].concat()
}

fn small(number: usize) -> Vec<u8> {
    vec![b'K', number as u8]
}

/// Instructions that push a dictionary.
fn dict(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries = entries.iter().map(|(key, value)| [text(key), value.clone()].concat());
    [&b"}("[..], &entries.collect::<Vec<_>>().concat(), b"u"].concat()
}

/// Instructions that push an object of a class with these attributes, as Python does by default.
fn object(class: Vec<u8>, attributes: &[(&str, Vec<u8>)]) -> Vec<u8> {
    [class, b")\x81".to_vec(), dict(attributes), b"b".to_vec()].concat()
}

/// Instructions that push a contiguous tensor of f32 values.
fn tensor(storage: &str, shape: &[usize]) -> Vec<u8> {
    let count = shape.iter().product();
    let parts = [
        text("storage"),
        import("torch", "FloatStorage"),
        text(storage),
        text("cpu"),
        small(count),
    ];
    let strides = (0..shape.len()).map(|axis| small(shape[axis + 1..].iter().product()));
    let shape = shape.iter().map(|&size| small(size));
    call(
        import("torch._utils", "_rebuild_tensor_v2"),
        &[
            [tuple(&parts), b"Q".to_vec()].concat(),
            small(0),
            tuple(&shape.collect::<Vec<_>>()),
            tuple(&strides.collect::<Vec<_>>()),
            b"\x89".to_vec(),
            call(import("collections", "OrderedDict"), &[]),
        ],
    )
}

/// Instructions that push a number of numpy.
fn numpy_number() -> Vec<u8> {
    let minus_one = || b"J\xff\xff\xff\xff".to_vec();
    let none = || b"N".to_vec();
    let kind = call(import("numpy", "dtype"), &[text("f8"), b"\x89".into(), b"\x88".into()]);
    let state = [small(3), text("<"), none(), none(), none(), minus_one(), minus_one(), small(0)];
    let bytes = call(import("_codecs", "encode"), &[text("abcdefgh"), text("latin1")]);
    let kind = [kind, tuple(&state), b"b".to_vec()].concat();
    call(import("numpy._core.multiarray", "scalar"), &[kind, bytes])
}

/// Writes a file of `torch.save` with this value; the storages 0 and 1 have 6 and 2 values.
fn save(name: &str, value: Vec<u8>) -> PathBuf {
    let path = folder().join(name);
    let mut archive = ZipWriter::new(File::create(&path).unwrap());
    let floats = |values: std::ops::Range<u8>| {
        values.flat_map(|value| f32::from(value).to_le_bytes()).collect::<Vec<u8>>()
    };
    for (name, content) in [
        ("data.pkl", [&b"\x80\x02"[..], &value, b"."].concat()),
        ("byteorder", b"little".to_vec()),
        ("data/0", floats(0..6)),
        ("data/1", floats(10..12)),
    ] {
        archive.start_file(format!("archive/{name}"), SimpleFileOptions::default()).unwrap();
        archive.write_all(&content).unwrap();
    }
    archive.finish().unwrap();
    path
}

/// The state dict of a linear layer of three features and two classes.
fn state() -> Vec<u8> {
    dict(&[("weight", tensor("0", &[2, 3])), ("bias", tensor("1", &[2]))])
}

fn layout() -> WeightLayout {
    WeightLayout::from_fn(AxisOrder::PyTorch, |path| path.strip_prefix("0.").map(str::to_owned))
}

fn load(path: &Path, layout: &WeightLayout) -> Result<LoadedWeights> {
    let data = data::from_vecs(vec![0.0; 6], &[3], vec![0, 1], 2)?;
    models::linear(&data).seed(1).build()?.load_weights(path, layout)
}

fn settings() -> Vec<u8> {
    let path = call(import("pathlib", "PosixPath"), &[text("/"), text("data")]);
    let device = call(import("torch", "device"), &[text("cpu")]);
    let attributes = [("lr", small(1)), ("out", path), ("device", device)];
    object(import("argparse", "Namespace"), &attributes)
}

#[test]
fn tensors_beside_settings_and_numbers_are_read() {
    let checkpoint = dict(&[
        ("epoch", small(3)),
        ("model", state()),
        ("args", settings()),
        ("best", numpy_number()),
    ]);
    let loaded = load(&save("model.pth", checkpoint), &layout()).unwrap();
    let expected = [
        ("0.weight".to_owned(), vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0]),
        ("0.bias".to_owned(), vec![10.0, 11.0]),
    ];
    assert_eq!(values(&loaded.model()), expected);
    let mut skipped = loaded.report().skipped_values().to_vec();
    skipped.sort();
    let names = [
        "argparse.Namespace",
        "numpy._core.multiarray.scalar",
        "numpy.dtype",
        "pathlib.PosixPath",
        "torch.device",
    ];
    assert_eq!(skipped, names);
    let report = loaded.report().to_string();
    for words in ["model.pth, under `model` (PyTorch", "none of them was run: argparse"] {
        assert!(report.contains(words), "{words:?} is not in: {report}");
    }
    let plain = load(&save("plain.pth", state()), &layout()).unwrap();
    assert_eq!(values(&plain.model()), expected);
    assert!(!plain.report().to_string().contains("skipped"), "{}", plain.report());
}

#[test]
fn only_one_usual_part_of_a_checkpoint_is_taken() {
    let deep = dict(&[("state_dict", dict(&[("module", state())])), ("state_dict_ema", state())]);
    let loaded = load(&save("deep.pth", deep), &layout()).unwrap();
    assert!(loaded.report().to_string().contains("under `state_dict.module`"));
    assert_eq!(loaded.report().left_in_file().len(), 2);

    let two = save("two.pth", dict(&[("model", state()), ("net", state())]));
    let prefixes = &[".prefix(\"model.\") or .prefix(\"net.\")", "--prefix"];
    assert_says(&load(&two, &layout()).unwrap_err(), ErrorKind::Model, prefixes);
    assert!(load(&two, &layout().prefix("net.")).is_ok());

    let other = save("other.pth", dict(&[("backbone", state())]));
    let error = load(&other, &layout()).unwrap_err();
    assert_says(&error, ErrorKind::Model, &[".prefix(\"backbone.\")"]);
    // A part of the parameters is not the model.
    let part = save("part.pth", dict(&[("model", dict(&[("bias", tensor("1", &[2]))]))]));
    assert_says(&load(&part, &layout()).unwrap_err(), ErrorKind::Model, &["no tensor for 2"]);
}

#[test]
fn other_imports_beside_tensors_are_refused() {
    for (module, name) in [
        ("os", "system"),
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("argparse", "ArgumentParser"),
        ("numpy", "load"),
        ("numpy.dtypes", "x.yDType"),
        ("pathlib", "os"),
        ("torch", "load"),
        ("torch", "device.x"),
        ("_codecs", "lookup"),
    ] {
        let attributes = [("lr", call(import(module, name), &[text("x")]))];
        let settings = object(import("argparse", "Namespace"), &attributes);
        let path = save("code.pth", dict(&[("model", state()), ("args", settings)]));
        let error = load(&path, &layout()).unwrap_err();
        let named = format!("{module}.{name}");
        assert_says(&error, ErrorKind::CorruptData, &[&named, "none of it was run"]);
    }
    // A tensor in settings has no name.
    let hidden = object(import("argparse", "Namespace"), &[("mean", tensor("1", &[2]))]);
    let path = save("hidden.pth", dict(&[("model", state()), ("args", hidden)]));
    let error = load(&path, &layout()).unwrap_err();
    assert_says(&error, ErrorKind::CorruptData, &["argparse.Namespace"]);
}

/// Writes an index and two shards of the tensors of [`state`].
fn sharded(index: &str) -> PathBuf {
    let folder = folder();
    let weight = ("weight".to_owned(), vec![2, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    write(&folder.join("model-1.safetensors"), &[weight]);
    write(&folder.join("model-2.safetensors"), &[("bias".to_owned(), vec![2], vec![10.0, 11.0])]);
    let path = folder.join("model.safetensors.index.json");
    fs::write(&path, index).unwrap();
    path
}

fn index(weight: &str, bias: &str) -> String {
    format!(
        r#"{{"metadata": {{"total_size": 32}}, "weight_map": {{"bias": "{bias}", "weight": "{weight}"}}}}"#
    )
}

#[test]
fn all_shards_of_an_index_are_read() {
    let (one, two) = ("model-1.safetensors", "model-2.safetensors");
    let loaded = load(&sharded(&index(one, two)), &layout()).unwrap();
    assert_eq!(values(&loaded.model())[1].1, [10.0, 11.0]);
    assert!(loaded.report().to_string().contains("(safetensors, 2 shards, "));
    let corrupt = ErrorKind::CorruptData;
    let refused = |index: &str, words: &[&str]| {
        assert_says(&load(&sharded(index), &layout()).unwrap_err(), corrupt, words);
    };
    refused(&index(two, one), &["model-1.safetensors has a tensor weight"]);
    refused(&index("../model-1.safetensors", two), &["in another folder: ../model-1.safetensors"]);
    refused(&index("/etc/passwd", two), &["in another folder"]);
    let lists_more =
        index(one, two).replacen("{\"bias\"", "{\"x\": \"model-2.safetensors\", \"bias\"", 1);
    refused(&lists_more, &["model-2.safetensors has no tensor x"]);
    refused(r#"{"weight_map": {"weight": "model-1.safetensors"}"#, &["damaged"]);
    refused(r#"{"weight_map": {}}"#, &["no tensors"]);
    let lost = load(&sharded(&index(one, "model-3.safetensors")), &layout()).unwrap_err();
    assert_says(&lost, ErrorKind::Io, &["model-3.safetensors"]);
    // A shard that is an index.
    let path = sharded(&index(one, "model.safetensors.index.json"));
    let error = load(&path, &layout()).unwrap_err();
    assert_says(&error, corrupt, &["neither a safetensors file nor"]);
}

#[test]
fn a_pointer_of_git_lfs_is_named() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff6\
                   9d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
    let path = folder().join("model.safetensors");
    fs::write(&path, pointer).unwrap();
    let words = &["is a Git LFS pointer", "git lfs pull"];
    assert_says(&load(&path, &layout()).unwrap_err(), ErrorKind::CorruptData, words);
    assert_says(&models::load(&path).unwrap_err(), ErrorKind::Model, words);
}
