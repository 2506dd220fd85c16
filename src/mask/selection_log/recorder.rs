//! Recording a [`SelectionLog`] on the device, without a copy to the host before the end.

use burn::prelude::*;

use super::{SelectionLog, SelectionLogTensor, bin_range, recorded_entries};
use crate::device::{DeviceArray, kernels};
use crate::engine::CoordinateWeights;

/// Recorder of the [`SelectionLog`] of one run, whose selections all have the same parameters.
///
/// Selections on a GPU are counted there, so no step waits for the counts.
#[derive(Clone)]
pub(crate) struct SelectionRecorder {
    log: SelectionLog,
    /// Fractions of all tensors for each time bin, concatenated, on the device.
    rows: Vec<Option<Tensor<1>>>,
    /// Number of coordinates in each coordinate bin, on the device.
    bin_sizes: Option<Tensor<1>>,
}

impl SelectionRecorder {
    /// Creates a recorder for a run of `steps` steps.
    pub(crate) fn new(steps: u64) -> Self {
        Self::from_log(SelectionLog::new(steps))
    }

    /// Creates a recorder that continues a log.
    pub(crate) fn from_log(log: SelectionLog) -> Self {
        Self { rows: vec![None; log.recorded.len()], log, bin_sizes: None }
    }

    /// Records the coordinates of a step as [`SelectionLog::record`] does.
    pub(crate) fn record(&mut self, step: u64, selected: &CoordinateWeights) {
        let Some(device) = recorded_entries(selected).find_map(|entry| entry.values.device())
        else {
            return self.log.record(step, selected);
        };
        let time = self.log.start_step(step, selected);
        let log = &self.log;
        let bin_sizes = self.bin_sizes.get_or_insert_with(|| concatenated(log, &device, bin_sizes));
        let means = self.rows[time].take();
        let means = means
            .unwrap_or_else(|| concatenated(log, &device, |tensor| tensor.fractions[time].clone()));
        let hits = recorded_entries(selected).zip(&log.tensors).map(|(entry, tensor)| {
            let bins = tensor.fractions[time].len();
            kernels::count_nonzero_bins(entry.values.to_tensor(&device), bins)
        });
        // A running mean, as on the host.
        let change = kernels::concat(hits.collect()) / bin_sizes.clone() - means.clone();
        self.rows[time] = Some(means + change / log.recorded[time] as f64);
    }

    /// Returns the finished log. Copies the fractions from the device to the host at once.
    pub(crate) fn into_log(self) -> SelectionLog {
        let mut log = self.log;
        let (times, rows): (Vec<usize>, Vec<DeviceArray>) = (self.rows.into_iter().enumerate())
            .filter_map(|(time, row)| Some((time, DeviceArray::from_tensor(row?))))
            .unzip();
        for (time, row) in times.into_iter().zip(DeviceArray::to_vecs(&rows)) {
            let mut row = row.into_iter();
            for fraction in log.tensors.iter_mut().flat_map(|tensor| &mut tensor.fractions[time]) {
                *fraction = row.next().unwrap_or(*fraction);
            }
        }
        log
    }
}

/// Returns some values of each tensor, concatenated, on the device.
fn concatenated(
    log: &SelectionLog,
    device: &Device,
    values: impl Fn(&SelectionLogTensor) -> Vec<f32>,
) -> Tensor<1> {
    log.tensors.iter().flat_map(values).collect::<DeviceArray>().to_tensor(device)
}

/// Returns the number of coordinates in each bin of a tensor.
fn bin_sizes(tensor: &SelectionLogTensor) -> Vec<f32> {
    let bins = tensor.fractions.first().map_or(0, Vec::len);
    (0..bins).map(|c| bin_range(c, bins, tensor.coordinates).len() as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::glyphs_with;
    use crate::mask::{CoordinateSelector, Dropping, RandomMask};
    use crate::nn::models;

    #[test]
    fn device_counts_equal_host_counts() {
        let data = glyphs_with(2, 0, 1).unwrap();
        let model = models::mlp(&data, &[16]).seed(1).build().unwrap();
        let network = model.network();
        let mask = RandomMask::prune(0.5).seed(1).mask(&model).unwrap();
        let gpu = Device::flex();
        for rule in [Dropping::random(0.4), Dropping::magnitude(0.4)] {
            let mut selector = CoordinateSelector::new(Some(&mask), Some(rule), 100, [7; 32]);
            let (mut host, mut device) = (SelectionLog::new(100), SelectionRecorder::new(100));
            for step in 0..70 {
                let selected = selector.next_selection_on(Some(&gpu), network).unwrap().unwrap();
                device.record(step, &selected);
                assert_eq!(device.log.tensors[0].fractions[0][0], 0.0, "copied before the end");
                host.record(step, &selected);
            }
            let device = device.into_log();
            assert_eq!((host.steps, &host.recorded), (device.steps, &device.recorded));
            assert_eq!(host.tensors.len(), 2);
            let mut varies = false;
            for (a, b) in host.tensors.iter().zip(&device.tensors) {
                assert_eq!((&a.path, a.coordinates), (&b.path, b.coordinates));
                for (a, b) in a.fractions.iter().zip(&b.fractions) {
                    assert_eq!(a.len(), b.len());
                    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
                    varies |= a.iter().any(|fraction| *fraction != b[0]);
                }
            }
            assert!(varies, "equal fractions would hide a wrong order");
        }
    }

    #[test]
    fn host_selections_are_recorded_on_the_host() {
        let data = glyphs_with(2, 0, 1).unwrap();
        let model = models::mlp(&data, &[16]).seed(1).build().unwrap();
        let mut selector = CoordinateSelector::new(None, Some(Dropping::random(0.4)), 40, [7; 32]);
        let (mut log, mut recorder) = (SelectionLog::new(40), SelectionRecorder::new(40));
        for step in 0..40 {
            let selected = selector.next_selection(model.network()).unwrap().unwrap();
            log.record(step, &selected);
            recorder.record(step, &selected);
        }
        assert_eq!(log, recorder.into_log());
        assert_eq!(SelectionLog::new(40), SelectionRecorder::new(40).into_log());
    }
}
