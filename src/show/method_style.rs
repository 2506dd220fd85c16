//! The colour, marker and line of each training method, the same in every figure.

use super::Series;

/// How a method is drawn. No two methods have the same colour and marker. A dashed line stands for
/// a method without a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MethodStyle {
    /// Name in commands and grids.
    name: &'static str,
    /// Name in plans and figures.
    title: &'static str,
    /// Number of a colour of [`palette::SERIES`](super::palette::SERIES).
    colour: usize,
    /// Number of a marker.
    marker: usize,
    dashed: bool,
}

const fn style(
    name: &'static str,
    title: &'static str,
    (colour, marker): (usize, usize),
    dashed: bool,
) -> MethodStyle {
    MethodStyle { name, title, colour, marker, dashed }
}

/// Markers: 0 circle, 1 square, 2 triangle, 3 diamond, 4 bar, 5 inverted triangle.
const STYLES: [MethodStyle; 8] = [
    style("dp-sgd", "DP-SGD", (0, 0), false),
    style("dp-ssgd", "DP-SSGD", (1, 1), false),
    style("adaptive-dp-sgd", "adaptive DP-SGD", (2, 2), false),
    style("dynamic-dp-sgd", "dynamic DP-SGD", (3, 3), false),
    style("quantile", "quantile DP-SGD", (2, 5), false),
    style("auto-dp-sgd", "Auto DP-SGD", (1, 4), true),
    style("backprop-clipping", "backpropagation clipping", (3, 5), false),
    style("non-private", "non-private SGD", (4, 0), true),
];

fn of(method: &str) -> Option<&'static MethodStyle> {
    STYLES.iter().find(|style| [style.name, style.title].contains(&method))
}

/// The series of a panel, drawn as the `methods` that they stand for if these are known and all
/// different; otherwise in the order of the palette.
pub(super) fn as_methods(series: Vec<Series>, methods: &[&str]) -> Vec<Series> {
    let styles: Option<Vec<&MethodStyle>> = methods.iter().map(|method| of(method)).collect();
    let distinct =
        |styles: &Vec<&MethodStyle>| (1..styles.len()).all(|i| !styles[..i].contains(&styles[i]));
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
    use crate::methods::methods;

    #[test]
    fn every_method_has_a_style_of_its_own_and_a_dash_means_no_guarantee() {
        let recipes: Vec<_> = methods().iter().map(|method| method.recipe()).collect();
        // Without the method that only tests have.
        let public = recipes.iter().filter(|recipe| recipe.name != "soft-clip");
        for recipe in public.clone() {
            let style = of(recipe.title).unwrap_or_else(|| panic!("{}", recipe.title));
            assert_eq!(of(recipe.name), Some(style));
            let claims = recipe.is_private && recipe.name != "auto-dp-sgd";
            assert_eq!(style.dashed, !claims, "{}", recipe.name);
        }
        assert_eq!(public.count(), STYLES.len());
        for (i, a) in STYLES.iter().enumerate() {
            for b in &STYLES[..i] {
                assert_ne!((a.colour, a.marker), (b.colour, b.marker), "{} {}", a.name, b.name);
            }
        }
    }

    #[test]
    fn methods_keep_their_style_and_equal_or_unknown_ones_take_the_palette() {
        let two = || vec![Series::line("a", [(0.0, 1.0)]), Series::line("b", [(0.0, 2.0)])];
        let styles = |methods: &[&str]| -> Vec<_> {
            let drawn = as_methods(two(), methods);
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
