//! A record of selections that nobody looks at before the end.

use burn::prelude::*;

use super::{SelectionLog, SelectionLogTensor, stretch, wide};
use crate::device::{DeviceArray, kernels};
use crate::engine::Weights;

/// Makes the [`SelectionLog`] of one run, whose selections are all about the same parameters. Those that
/// live on a GPU are counted there: no step waits for the counts.
pub(crate) struct Recorder {
    touched: SelectionLog,
    /// For each stretch of time the shares of all tensors, one after the other, where the
    /// selections live.
    rows: Vec<Option<Tensor<1>>>,
    /// How many coordinates each share is of, there too.
    lengths: Option<Tensor<1>>,
}

impl Recorder {
    /// For a run of `steps` steps.
    pub(crate) fn new(steps: u64) -> Self {
        let touched = SelectionLog::new(steps);
        Self { rows: vec![None; touched.recorded.len()], touched, lengths: None }
    }

    /// As [`SelectionLog::record`].
    pub(crate) fn record(&mut self, step: u64, selected: &Weights) {
        let Some(device) = wide(selected).find_map(|entry| entry.values.device()) else {
            return self.touched.record(step, selected);
        };
        let time = self.touched.begin(step, selected);
        let touched = &self.touched;
        let lengths = self.lengths.get_or_insert_with(|| all(touched, &device, lengths));
        let shares = self.rows[time].take();
        let shares = shares.unwrap_or_else(|| all(touched, &device, |t| t.share[time].clone()));
        let hits = wide(selected).zip(&touched.tensors).map(|(entry, tensor)| {
            kernels::count_nonzero_bins(entry.values.tensor(&device), tensor.share[time].len())
        });
        // The mean so far, as on the host.
        let new = Tensor::cat(hits.collect(), 0) / lengths.clone() - shares.clone();
        self.rows[time] = Some(shares + new / touched.recorded[time] as f64);
    }

    /// The record. Copies what lies on a GPU, all at once.
    pub(crate) fn finish(self) -> SelectionLog {
        let mut touched = self.touched;
        let (times, rows): (Vec<usize>, Vec<DeviceArray>) = (self.rows.into_iter().enumerate())
            .filter_map(|(time, row)| Some((time, DeviceArray::of(row?))))
            .unzip();
        for (time, row) in times.into_iter().zip(DeviceArray::all(&rows)) {
            let mut row = row.into_iter();
            for share in touched.tensors.iter_mut().flat_map(|tensor| &mut tensor.share[time]) {
                *share = row.next().unwrap_or(*share);
            }
        }
        touched
    }
}

/// Some numbers of each tensor, one after the other.
fn all(
    touched: &SelectionLog,
    device: &Device,
    of: impl Fn(&SelectionLogTensor) -> Vec<f32>,
) -> Tensor<1> {
    touched.tensors.iter().flat_map(of).collect::<DeviceArray>().tensor(device)
}

/// How many coordinates each stretch of a tensor has.
fn lengths(tensor: &SelectionLogTensor) -> Vec<f32> {
    let places = tensor.share.first().map_or(0, Vec::len);
    (0..places).map(|c| stretch(c, places, tensor.coordinates).len() as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::glyphs_with;
    use crate::mask::{Dropping, RandomMask, Selector};
    use crate::nn::models;

    #[test]
    fn what_is_counted_on_a_gpu_is_what_the_host_counts() {
        let data = glyphs_with(2, 0, 1).unwrap();
        let model = models::mlp(&data, &[16]).seed(1).build().unwrap();
        let network = model.network();
        let mask = RandomMask::prune(0.5).seed(1).mask(&model).unwrap();
        let gpu = Device::flex();
        for rule in [Dropping::random(0.4), Dropping::magnitude(0.4)] {
            let mut selector = Selector::new(Some(&mask), Some(rule), 100, [7; 32]);
            let (mut here, mut there) = (SelectionLog::new(100), Recorder::new(100));
            for step in 0..70 {
                let selected = selector.next_on(Some(&gpu), network).unwrap().unwrap();
                there.record(step, &selected);
                assert_eq!(there.touched.tensors[0].share[0][0], 0.0, "copied before the end");
                here.record(step, &selected);
            }
            let there = there.finish();
            assert_eq!((here.steps, &here.recorded), (there.steps, &there.recorded));
            assert_eq!(here.tensors.len(), 2);
            let mut moves = false;
            for (a, b) in here.tensors.iter().zip(&there.tensors) {
                assert_eq!((&a.path, a.coordinates), (&b.path, b.coordinates));
                for (a, b) in a.share.iter().zip(&b.share) {
                    assert_eq!(a.len(), b.len());
                    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
                    moves |= a.iter().any(|share| *share != b[0]);
                }
            }
            assert!(moves, "shares that are all the same would hide a wrong order");
        }
    }

    #[test]
    fn selections_on_the_host_are_recorded_as_ever() {
        let data = glyphs_with(2, 0, 1).unwrap();
        let model = models::mlp(&data, &[16]).seed(1).build().unwrap();
        let mut selector = Selector::new(None, Some(Dropping::random(0.4)), 40, [7; 32]);
        let (mut here, mut there) = (SelectionLog::new(40), Recorder::new(40));
        for step in 0..40 {
            let selected = selector.next(model.network()).unwrap().unwrap();
            here.record(step, &selected);
            there.record(step, &selected);
        }
        assert_eq!(here, there.finish());
        assert_eq!(SelectionLog::new(40), Recorder::new(40).finish());
    }
}
