use super::*;

/// Two tensors of which only the first has other flags.
fn mask(path: &str, shape: [usize; 2], first: [bool; 4]) -> Mask {
    let kept = |path: &str, shape: [usize; 2], kept: [bool; 4]| Kept {
        path: path.into(),
        shape: shape.into(),
        kept: kept.into(),
    };
    let second = kept("1.weight", [2, 2], [true, false, true, false]);
    Mask::of(vec![kept(path, shape, first), second]).unwrap()
}

#[test]
fn a_fingerprint_is_that_of_the_flags_and_of_what_becomes_of_the_others() {
    let flags = [true, true, false, false];
    let one = mask("0.weight", [2, 2], flags);
    assert_eq!(one.fingerprint(), mask("0.weight", [2, 2], flags).fingerprint());
    // Other flags, but as many in each tensor: what a plan's text would say alike.
    for (what, other) in [
        ("flags", mask("0.weight", [2, 2], [true, false, true, false])),
        ("flags", mask("0.weight", [2, 2], [false, false, true, true])),
        ("place", mask("2.weight", [2, 2], flags)),
        ("shape", mask("0.weight", [4, 1], flags)),
        ("zeroing", one.zeroing()),
    ] {
        assert_ne!(one.fingerprint(), other.fingerprint(), "another {what}");
    }
}
