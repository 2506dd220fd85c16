//! Patterns that choose parameters by their paths.

/// Returns whether a pattern names this path, or a layer or group that contains it. `*` stands for
/// any characters. Dots, and in files of other programs slashes, separate the parts of a path.
pub(crate) fn path_matches(pattern: &str, path: &str) -> bool {
    let ends = path.match_indices(['.', '/']).map(|(end, _)| end).chain([path.len()]);
    ends.into_iter().any(|end| glob(pattern.as_bytes(), &path.as_bytes()[..end]))
}

/// Returns whether the whole text matches a pattern in which `*` stands for any characters.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    // The position behind the last `*`, and that of the text it may have consumed.
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((after, consumed)) = star {
            star = Some((after, consumed + 1));
            p = after;
            t = consumed + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_parameters_layers_and_groups() {
        let yes = [
            ("head", "head.1.weight"),
            ("head.1", "head.1.weight"),
            ("head.1.weight", "head.1.weight"),
            ("stem.*", "stem.0.bias"),
            ("*.bias", "group1.0.body.2.bias"),
            ("group*.body", "group12.0.body.2.bias"),
            ("*", "0.weight"),
            ("0", "0.weight"),
            ("net/Softmax", "net/Softmax/w"),
        ];
        let no = [
            ("head.1", "head.10.weight"),
            ("hea", "head.1.weight"),
            ("weight", "0.weight"),
            ("*.bias", "0.weight"),
            ("", "0.weight"),
            ("0.weight.x", "0.weight"),
        ];
        yes.iter()
            .for_each(|(pattern, path)| assert!(path_matches(pattern, path), "{pattern} {path}"));
        no.iter()
            .for_each(|(pattern, path)| assert!(!path_matches(pattern, path), "{pattern} {path}"));
    }
}
