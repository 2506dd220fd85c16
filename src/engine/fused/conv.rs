//! Convolutions: patches as rows of a matrix, one product per block of images.

mod norms;

use super::activation::Activation;
use super::layout::{Map, Part};
use super::op::{Chunk, NormMethod, Op, Rows, Scratch, Seen, room};
use super::outer;
use super::patches::Walk;
use super::pixels::Pixels;
use super::standardise::Standardise;
use crate::nn::kernels::product::{Matrix, Store, product};

/// Rows of a product that keep the vector units busy; more only leave the caches.
const ENOUGH: usize = 96;

pub(super) struct Conv {
    /// How the kernel walks, one per group.
    walks: Vec<Walk>,
    out: usize,
    /// The walk over the output gradient whose patches, times the turned weights, are the input
    /// gradient; for steps of one pixel without groups.
    way_back: Option<Walk>,
    activation: Activation,
    parts: Vec<Part>,
    bias: Option<Vec<f32>>,
    /// Per group `[patch] x [outputs]`: what the convolution multiplies with.
    weight: Vec<f32>,
    /// `[kernel, outputs] x [inputs]`, kernel turned by half a circle.
    turned: Vec<f32>,
    standardise: Option<Standardise>,
    pixels: Option<Pixels>,
}

/// What a convolution is.
pub(super) struct ConvSpec {
    pub(super) input: [usize; 3],
    pub(super) out: usize,
    pub(super) output: [usize; 2],
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) padding: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) groups: usize,
    pub(super) bias: bool,
    pub(super) activation: Activation,
}

impl Conv {
    pub(super) fn new(spec: &ConvSpec, standardise: Option<Standardise>) -> Self {
        let [channels, height, width] = spec.input;
        let part = channels / spec.groups;
        let walk = Walk {
            size: [height, width],
            channels,
            kernel: spec.kernel,
            stride: spec.stride,
            padding: spec.padding,
            dilation: spec.dilation,
            output: spec.output,
            first: 0,
            part,
        };
        let walks: Vec<Walk> =
            (0..spec.groups).map(|group| Walk { first: group * part, ..walk }).collect();
        let reach = |i: usize| spec.dilation[i] * (spec.kernel[i] - 1);
        let direct = spec.groups == 1
            && spec.stride == [1, 1]
            && (0..2).all(|i| spec.padding[i] <= reach(i));
        let way_back = direct.then(|| Walk {
            size: spec.output,
            channels: spec.out,
            kernel: spec.kernel,
            stride: [1, 1],
            padding: [reach(0) - spec.padding[0], reach(1) - spec.padding[1]],
            dilation: spec.dilation,
            output: [height, width],
            first: 0,
            part: spec.out,
        });
        let area = spec.kernel[0] * spec.kernel[1];
        let len = area * part * spec.out;
        let map =
            Map::Kernel { groups: spec.groups, out: spec.out / spec.groups, input: part, area };
        let mut parts = vec![Part::large(0, map)];
        if spec.bias {
            parts.push(Part::small(0, spec.out));
        }
        if standardise.as_ref().is_some_and(Standardise::has_gain) {
            parts.push(Part::large(len, Map::Plain { len: spec.out }));
        }
        let pixels = Pixels::of(&walk, spec.groups);
        Self {
            walks,
            pixels,
            out: spec.out,
            way_back,
            activation: spec.activation,
            parts,
            bias: spec.bias.then(|| vec![0.0; spec.out]),
            weight: vec![0.0; len],
            turned: vec![0.0; if direct { len } else { 0 }],
            standardise,
        }
    }

    fn positions(&self) -> usize {
        self.walks[0].positions()
    }

    fn patch(&self) -> usize {
        self.walks[0].patch()
    }

    fn image(&self) -> usize {
        let walk = &self.walks[0];
        walk.size[0] * walk.size[1] * walk.channels
    }

    /// A convolution with a kernel of one pixel and steps of one: patches are the pixels.
    fn is_plain(&self) -> bool {
        let walk = &self.walks[0];
        walk.kernel == [1, 1]
            && walk.stride == [1, 1]
            && walk.padding == [0, 0]
            && walk.part == walk.channels
    }

    /// Nothing follows but the next layer: the output is that of the product itself.
    fn is_bare(&self) -> bool {
        self.bias.is_none() && self.activation == Activation::None && self.walks.len() == 1
    }

    /// The patches of some images, `[images, positions, patch]`.
    fn patches<'a>(&self, group: usize, x: &'a [f32], buffer: &'a mut Vec<f32>) -> &'a [f32] {
        if self.is_plain() {
            return x;
        }
        let walk = &self.walks[group];
        let images = x.chunks_exact(self.image());
        let out = room(buffer, images.len() * walk.positions() * walk.patch());
        for (image, out) in images.zip(out.chunks_exact_mut(walk.positions() * walk.patch())) {
            walk.gather(image, out);
        }
        out
    }

    /// The group's share of the output channels, `[positions, outputs of the group]`.
    fn share<'a>(&self, group: usize, g: &'a [f32], buffer: &'a mut Vec<f32>) -> &'a [f32] {
        let groups = self.walks.len();
        if groups == 1 {
            return g;
        }
        let part = self.out / groups;
        let out = room(buffer, g.len() / groups);
        for (to, from) in out.chunks_exact_mut(part).zip(g.chunks_exact(self.out)) {
            to.copy_from_slice(&from[group * part..(group + 1) * part]);
        }
        out
    }

    /// Images that are multiplied at once.
    fn block(&self) -> usize {
        ENOUGH.div_ceil(self.positions())
    }

    /// DeviceArray in one group's weights.
    fn group_len(&self) -> usize {
        self.weight.len() / self.walks.len()
    }
}

impl Op for Conv {
    fn len(&self) -> usize {
        self.positions() * self.out
    }

    fn layout(&self) -> &[Part] {
        &self.parts
    }

    fn load(&mut self, small: &[f32], large: &[f32]) {
        if let Some(bias) = &mut self.bias {
            bias.copy_from_slice(small);
        }
        let (weight, gain) = large.split_at(self.weight.len());
        self.weight.copy_from_slice(weight);
        if let Some(standardise) = &mut self.standardise {
            standardise.load(&mut self.weight, gain);
        }
        let (out, input) = (self.out, self.walks[0].part);
        let area = self.walks[0].kernel[0] * self.walks[0].kernel[1];
        if self.turned.is_empty() {
            return;
        }
        for (a, tap) in self.weight.chunks_exact(input * out).enumerate() {
            let start = (area - 1 - a) * input * out;
            let turned = &mut self.turned[start..start + input * out];
            for block in (0..input).step_by(16) {
                for o in 0..out {
                    for i in block..input.min(block + 16) {
                        turned[o * input + i] = tap[i * out + o];
                    }
                }
            }
        }
    }

    fn forward(&self, rows: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], scratch: &mut Scratch) {
        debug_assert_eq!(x.len(), rows.all() * self.image());
        let blocks =
            x.chunks(self.block() * self.image()).zip(y.chunks_mut(self.block() * self.len()));
        for (x, y) in blocks {
            let positions = y.len() / self.out;
            for (group, weight) in self.weight.chunks_exact(self.group_len()).enumerate() {
                let outputs = self.out / self.walks.len();
                let patches = self.patches(group, x, &mut scratch.patches);
                let patches = Matrix::new(patches, positions, self.patch());
                let weight = Matrix::new(weight, self.patch(), outputs);
                if self.walks.len() == 1 {
                    product(y, Store::Replace, patches, weight);
                    continue;
                }
                let share = room(&mut scratch.second, positions * outputs);
                product(share, Store::Replace, patches, weight);
                for (to, from) in y.chunks_exact_mut(self.out).zip(share.chunks_exact(outputs)) {
                    to[group * outputs..(group + 1) * outputs].copy_from_slice(from);
                }
            }
            self.activation.apply(y, self.bias.as_deref());
        }
    }

    fn backward(
        &self,
        seen: Chunk,
        gx: Option<(&mut [f32], Store)>,
        small: &mut [f32],
        scratch: &mut Scratch,
    ) {
        self.activation.back(seen.y, seen.g);
        let g = &*seen.g;
        if self.bias.is_some() {
            let each = small.chunks_exact_mut(self.out);
            let copies = g.chunks_exact(seen.rows.copies * self.len());
            each.zip(copies).for_each(|(bias, g)| outer::add_rows(g, bias));
        }
        let Some((gx, store)) = gx else { return };
        if let Some(way) = &self.way_back {
            let images = ENOUGH.div_ceil(way.positions());
            let blocks = gx.chunks_mut(images * self.image()).zip(g.chunks(images * self.len()));
            for (gx, g) in blocks {
                let positions = gx.len() / self.walks[0].channels;
                let patches = if self.is_plain() {
                    g
                } else {
                    let len = way.positions() * way.patch();
                    let out = room(&mut scratch.patches, g.len() / self.len() * len);
                    for (g, out) in g.chunks_exact(self.len()).zip(out.chunks_exact_mut(len)) {
                        way.gather(g, out);
                    }
                    &*out
                };
                let patches = Matrix::new(patches, positions, way.patch());
                let turned = Matrix::new(&self.turned, way.patch(), self.walks[0].channels);
                product(gx, store, patches, turned);
            }
            return;
        }
        if store == Store::Replace {
            gx.fill(0.0);
        }
        let (images, outputs) = (self.block(), self.out / self.walks.len());
        let blocks = gx.chunks_mut(images * self.image()).zip(g.chunks(images * self.len()));
        for (gx, g) in blocks {
            for (group, weight) in self.weight.chunks_exact(self.group_len()).enumerate() {
                let g = self.share(group, g, &mut scratch.second);
                let positions = g.len() / outputs;
                let patches = room(&mut scratch.patches, positions * self.patch());
                let weight = Matrix::new(weight, self.patch(), outputs);
                product(
                    patches,
                    Store::Replace,
                    Matrix::new(g, positions, outputs),
                    weight.transposed(),
                );
                let each = patches.chunks_exact(self.positions() * self.patch());
                for (gx, patches) in gx.chunks_exact_mut(self.image()).zip(each) {
                    self.walks[group].scatter(patches, gx);
                }
            }
        }
    }

    fn norm_method(&self, copies: usize, weighted: bool) -> NormMethod {
        let outputs = self.out / self.walks.len();
        if weighted || self.standardise.is_some() && !self.is_bare() {
            return NormMethod::Instance;
        }
        outer::norm_method(copies * self.positions(), self.patch(), outputs)
    }

    fn squares(
        &self,
        seen: Seen,
        _: Option<&[f32]>,
        squares: &mut [f64],
        alone: &mut Vec<usize>,
        scratch: &mut Scratch,
    ) {
        for (i, square) in squares.iter_mut().enumerate() {
            match self.ghost(seen.example(i), scratch) {
                Some(found) => *square += found,
                None => alone.push(i),
            }
        }
    }

    fn instance(
        &self,
        seen: Seen,
        weights: Option<&[f32]>,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> f64 {
        self.formed(seen, weights, out, scratch)
    }

    fn weighted_sum(
        &self,
        seen: Seen,
        factors: Option<&[f32]>,
        sum: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let outputs = self.out / self.walks.len();
        let copies = seen.rows.copies;
        // Whole examples, so that each block has its own factors.
        let block = self.block().div_ceil(copies);
        let xs = seen.x.chunks(block * copies * self.image());
        let gs = seen.g.chunks(block * copies * self.len());
        for (at, (x, g)) in xs.zip(gs).enumerate() {
            let rows = g.len() / self.out;
            let factors = factors.map(|f| &f[at * block..f.len().min((at + 1) * block)]);
            for (group, sum) in
                sum[..self.weight.len()].chunks_exact_mut(self.group_len()).enumerate()
            {
                let patches = self.patches(group, x, &mut scratch.patches);
                let g = self.share(group, g, &mut scratch.second);
                debug_assert_eq!(g.len(), rows * outputs);
                outer::weighted(patches, g, rows, factors, sum, &mut scratch.third);
            }
        }
    }

    /// Sums are by the weights that the convolution multiplies with.
    fn indirect(&self) -> Option<usize> {
        self.standardise.as_ref().map(|_| self.weight.len())
    }

    fn finish(&self, indirect: &[f32], large: &mut [f32]) {
        if let Some(standardise) = &self.standardise {
            let mut pulled = indirect.to_vec();
            pulled.resize(large.len(), 0.0);
            let (weight, gain) = pulled.split_at_mut(self.weight.len());
            standardise.pull(weight, gain);
            outer::add(large, &pulled);
        }
    }
}
