//! The colour, marker and line of each training method, the same in every figure.

use super::Series;
use crate::methods::{FigureStyle, methods};

/// Returns the style of the method with this name or title.
fn style(method: &str) -> Option<FigureStyle> {
    let known = methods().into_iter().map(|known| known.descriptor());
    let mut named = known.filter(|known| [known.name, known.title].contains(&method));
    named.next().map(|known| known.style)
}

/// Returns the series of a panel, drawn as the `methods` that they stand for if these are known
/// and all different; otherwise in the order of the palette.
pub(super) fn style_by_method(series: Vec<Series>, methods: &[&str]) -> Vec<Series> {
    let styles: Option<Vec<FigureStyle>> = methods.iter().map(|method| style(method)).collect();
    let distinct =
        |styles: &Vec<FigureStyle>| (1..styles.len()).all(|i| !styles[..i].contains(&styles[i]));
    match styles.filter(distinct) {
        Some(styles) => series
            .into_iter()
            .zip(styles)
            .map(|(series, style)| {
                let series = series.colour(style.colour).marker(style.marker);
                if style.dashed { series.approximate() } else { series }
            })
            .collect(),
        None => {
            let numbered = series.into_iter().enumerate();
            numbered.map(|(slot, series)| series.colour(slot).marker(slot)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::MethodDescriptor;

    #[test]
    fn every_method_has_a_style_of_its_own_and_a_dash_means_no_guarantee() {
        let known: Vec<_> = methods().iter().map(|method| method.descriptor()).collect();
        // Without the method that only tests have.
        let public: Vec<_> = known.iter().filter(|method| method.name != "soft-clip").collect();
        for (i, method) in public.iter().enumerate() {
            assert_eq!(style(method.name), Some(method.style));
            assert_eq!(style(method.title), Some(method.style));
            let claims = method.adds_noise && method.name != "auto-dp-sgd";
            assert_eq!(method.style.dashed, !claims, "{}", method.name);
            let mark = |method: &MethodDescriptor| (method.style.colour, method.style.marker);
            let alike = public[..i].iter().find(|other| mark(other) == mark(method));
            assert!(alike.is_none(), "{} {alike:?}", method.name);
        }
    }

    #[test]
    fn methods_keep_their_style_and_equal_or_unknown_ones_take_the_palette() {
        let two = || vec![Series::line("a", [(0.0, 1.0)]), Series::line("b", [(0.0, 2.0)])];
        let styles = |methods: &[&str]| -> Vec<_> {
            let drawn = style_by_method(two(), methods);
            drawn.iter().map(|s| (s.colour, s.marker, s.approximate)).collect()
        };
        let kept = [(Some(4), Some(0), true), (Some(0), Some(0), false)];
        assert_eq!(styles(&["non-private", "DP-SGD"]), kept);
        assert_eq!(styles(&["DP-SGD", "non-private SGD"]), [kept[1], kept[0]]);
        let palette = [(Some(0), Some(0), false), (Some(1), Some(1), false)];
        assert_eq!(styles(&["dp-ssgd", "dp-ssgd"]), palette);
        assert_eq!(styles(&["dp-ssgd", "mine"]), palette);
    }
}
