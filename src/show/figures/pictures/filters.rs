//! The filters of a model's first layer.

use super::{PictureGrid, PictureTile, is_image_shape};
use crate::nn::{LayerSpec, Model};
use crate::show::bitmap::{Bitmap, downsample, range};
use crate::show::figure_card::FigureHeader;
use crate::show::{Coverage, Figure, MimeBundle, Table, format, palette};
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;

/// Largest number of filters that are drawn.
const MAX_FILTERS: usize = 64;

/// The filters of the first layer with parameters, if it reads images: the kernels of a
/// convolution, or the weights of each unit of a dense layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Filters {
    model: String,
    layer: String,
    shape: [usize; 3],
    values: Arc<[f32]>,
    coverage: Coverage,
}

impl Filters {
    /// Returns the filters of this model, whose parameters reveal what `coverage` says.
    ///
    /// # Errors
    /// Kind `Model` if its inputs are no images with one or three channels, or if the first layer
    /// with parameters is neither a convolution nor a dense layer.
    pub(crate) fn from_model(model: &Model, coverage: Coverage) -> Result<Self> {
        let refuse = |why: &str| {
            let what = format!("the filters of {}", model.name());
            let fix = "print the layers of the model: model.summary()";
            Err(Error::new(ErrorKind::Model, what, why).fix(fix))
        };
        let &[channels, height, width] = model.input_shape() else {
            return refuse("the inputs are not images");
        };
        let network = model.network();
        let first = network
            .leaf_specs()
            .into_iter()
            .find(|spec| matches!(spec, LayerSpec::Conv2d(_) | LayerSpec::Linear(_)));
        let parameters = network.values();
        let Some((weight, values)) = parameters.first() else {
            return refuse("the model has no parameters");
        };
        let (shape, values) = match (first, weight.shape.as_slice()) {
            (Some(LayerSpec::Conv2d(_)), &[_, channels, height, width]) => {
                ([channels, height, width], values.clone())
            }
            (Some(LayerSpec::Linear(_)), &[inputs, outputs])
                if inputs == channels * height * width =>
            {
                // Burn stores the inputs of all units one after the other.
                let unit = |unit: usize| values.iter().skip(unit).step_by(outputs).copied();
                ([channels, height, width], (0..outputs).flat_map(unit).collect())
            }
            _ => return refuse("the first layer with parameters does not read images"),
        };
        if !is_image_shape(&shape) && shape[0] != 1 {
            return refuse("the filters have neither one channel nor three");
        }
        let (name, layer) = (model.name().to_owned(), weight.path.clone());
        Ok(Self { model: name, layer, shape, values: values.into(), coverage })
    }

    /// Returns the shape of each filter: channels, height, width.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Returns the number of filters.
    pub fn len(&self) -> usize {
        self.values.len() / self.shape.iter().product::<usize>().max(1)
    }

    /// Returns whether there are no filters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the weights of filter `i`: `[channels, height, width]` row-major.
    ///
    /// # Panics
    /// As a slice does, if there is no such filter.
    pub fn values(&self, i: usize) -> &[f32] {
        let size: usize = self.shape.iter().product();
        &self.values[i * size..(i + 1) * size]
    }

    /// Returns the coverage of the filters: what they reveal of private data.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Returns a table with a row for each filter: lowest, highest and norm of its weights.
    pub fn table(&self) -> Table {
        let heads = ["filter", "lowest", "highest", "norm"];
        let row = |i: usize| {
            let values = self.values(i);
            let number = |value: f32| format::significant(f64::from(value), 3);
            let norm = values.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>().sqrt();
            let (low, high) = range(values.iter());
            [format::format_count(i), number(low), number(high), format::significant(norm, 3)]
        };
        Table::new(heads).rows((0..self.len()).map(row)).coverage(self.coverage)
    }

    /// Returns the figure of the filters.
    pub fn bundle(&self) -> MimeBundle {
        filters(self).bundle()
    }
}

impl fmt::Display for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [channels, height, width] = self.shape;
        let count = format::pluralise(self.len(), "filter");
        let Self { layer, model, .. } = self;
        write!(f, "{count} of shape {channels}x{height}x{width} in {layer} of {model}")
    }
}

/// Draws the filters as pictures. With one channel, negative weights are blue and positive ones
/// orange, on one scale for all filters; with three channels, each filter is coloured from its
/// lowest to its highest weight.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let filters = models::papernot_cnn(&data).seed(1).build()?.filters()?; // or run.filters()?
/// let figure = figures::filters(&filters);
/// assert_eq!(figure.table().len(), filters.len()); // a row for each filter
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// That of the parameters. Parameters that are [not covered](Coverage::NotCovered) carry the badge.
pub fn filters(filters: &Filters) -> Figure {
    let [channels, height, width] = filters.shape;
    let drawn = filters.len().min(MAX_FILTERS);
    let largest = |values: &[f32]| values.iter().fold(0.0f32, |most, w| most.max(w.abs()));
    let all = largest(&filters.values).max(f32::MIN_POSITIVE);
    let picture = |i: usize| {
        let (values, shape) = downsample(filters.values(i).to_vec(), filters.shape, 64);
        match channels {
            3 => Bitmap::from_image(&values, shape, range(values.iter())),
            _ => Bitmap::from_signed(&values, [shape[1], shape[2]], all),
        }
    };
    let tiles: Vec<PictureTile> =
        (0..drawn).map(|i| PictureTile { picture: picture(i), lines: Vec::new() }).collect();
    let head = FigureHeader::new(format!("First-layer filters of {}", filters.model))
        .note(match channels {
            3 => format!("{width}x{height} pixels, each from its lowest to its highest weight."),
            _ => format!("{width}x{height} pixels, all on one scale."),
        })
        .note_if(filters.len() > drawn, || {
            format!("The first {drawn} of {}.", format::format_count(filters.len()))
        })
        .coverage(filters.coverage);
    let head = match channels {
        3 => head,
        _ => {
            let number = format::significant(f64::from(all), 2);
            head.key(palette::diverging(-1.0), format!("-{number}"))
                .key(palette::diverging(0.0), "0")
                .key(palette::diverging(1.0), number)
        }
    };
    head.figure(&PictureGrid { width: 640.0, columns: 8, tiles }, filters.table())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::nn::models;
    use crate::show::NOT_COVERED;
    use crate::show::layout::tests::collisions;

    #[test]
    fn filters_are_the_kernels_of_the_first_layer() {
        let data = data::glyphs_with(20, 0, 1).unwrap();
        let model = models::papernot_cnn(&data).seed(1).build().unwrap();
        let filters = Filters::from_model(&model, Coverage::Public).unwrap();
        let (weight, values) = &model.network().values()[0];
        assert_eq!((filters.len(), filters.shape()), (weight.shape[0], [1, 8, 8]));
        assert_eq!(filters.values(1), &values[64..128]);
        let figure = super::filters(&filters);
        assert_eq!(figure.svg().matches("<image ").count(), filters.len());
        assert!(!figure.svg().contains(NOT_COVERED));
        assert_eq!(collisions(figure.scene()), Vec::<String>::new());
    }

    #[test]
    fn the_filter_of_a_dense_unit_is_its_column() {
        let data = data::glyphs_with(20, 0, 1).unwrap();
        let model = models::linear(&data).seed(1).build().unwrap();
        let filters = Filters::from_model(&model, Coverage::NotCovered).unwrap();
        let (_, values) = &model.network().values()[0];
        assert_eq!((filters.len(), filters.shape()), (10, [1, 28, 28]));
        assert_eq!(filters.values(3)[5], values[5 * 10 + 3]);
        assert!(super::filters(&filters).svg().contains(NOT_COVERED));
        let coloured = data::patterns_with(20, 0, 1).unwrap();
        let model = models::linear(&coloured).seed(1).build().unwrap();
        let filters = Filters::from_model(&model, Coverage::Public).unwrap();
        assert_eq!(filters.shape()[0], 3);
        assert_eq!(collisions(super::filters(&filters).scene()), Vec::<String>::new());
    }

    #[test]
    fn models_of_other_inputs_are_refused() {
        let text = data::sentences_with(20, 0, 1).unwrap();
        let model = models::bilstm(&text, text.vocabulary().unwrap().len(), 2, 2);
        let error =
            Filters::from_model(&model.seed(1).build().unwrap(), Coverage::Public).unwrap_err();
        assert!(error.to_string().contains("not images"), "{error}");
    }
}
