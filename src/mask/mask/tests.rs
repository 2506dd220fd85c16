use super::*;

/// A mask of two tensors; the second is always the same.
fn mask(path: &str, shape: [usize; 2], first: [bool; 4]) -> Mask {
    let kept = |path: &str, shape: [usize; 2], kept: [bool; 4]| MaskTensor {
        path: path.into(),
        shape: shape.into(),
        kept: kept.into(),
    };
    let second = kept("1.weight", [2, 2], [true, false, true, false]);
    Mask::new(vec![kept(path, shape, first), second]).unwrap()
}

/// Run ids are hashes of plans, which contain these texts.
#[test]
fn the_texts_of_origins_do_not_change() {
    let first = mask("0.weight", [2, 2], [true, true, false, false]);
    let second = mask("0.weight", [2, 2], [true, false, true, false]);
    assert_eq!(first.origin().method, "of your own");
    assert_eq!(first.union(&second).unwrap().origin().method, "of your own or of your own");
    assert_eq!(
        first.origin().to_string(),
        "of your own (costs nothing if it was chosen without looking at private data)"
    );
}

#[test]
fn the_fingerprint_depends_on_paths_shapes_flags_and_zeroing() {
    let flags = [true, true, false, false];
    let base = mask("0.weight", [2, 2], flags);
    assert_eq!(base.fingerprint(), mask("0.weight", [2, 2], flags).fingerprint());
    // As many kept coordinates in each tensor, so a plan would display the same text.
    for (what, other) in [
        ("flags", mask("0.weight", [2, 2], [true, false, true, false])),
        ("flags", mask("0.weight", [2, 2], [false, false, true, true])),
        ("path", mask("2.weight", [2, 2], flags)),
        ("shape", mask("0.weight", [4, 1], flags)),
        ("zeroing", base.with_zeroing()),
    ] {
        assert_ne!(base.fingerprint(), other.fingerprint(), "another {what}");
    }
}
