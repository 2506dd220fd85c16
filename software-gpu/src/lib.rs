//! What the tests on a software GPU have in common.

use std::panic::catch_unwind;
use std::sync::OnceLock;

use epsilab::burn::prelude::*;
use epsilab::burn::tensor::DeviceKind;

/// The software GPU: a Vulkan driver that computes on the CPU.
///
/// # Panics
/// If there is none: a test that can't run must not pass.
pub fn gpu() -> Device {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    let start = || {
        let device = Device::wgpu(DeviceKind::Cpu);
        let works = || Tensor::<1>::ones([2], &device).sum().into_scalar::<f32>() == 2.0;
        catch_unwind(std::panic::AssertUnwindSafe(works)).ok()?.then_some(device)
    };
    DEVICE.get_or_init(start).clone().expect(
        "no software GPU was found: install a Vulkan driver that runs on the CPU, \
         on Debian the package mesa-vulkan-drivers",
    )
}

/// The plain CPU, where every operation has a version to compare with.
pub fn cpu() -> Device {
    Device::flex()
}

/// The tensor's numbers, row-major.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect("tensors of the lab hold f32")
}

/// The tensor's numbers by their bits, to tell zeros by sign and numbers from what is none.
pub fn bits<const D: usize>(tensor: Tensor<D>) -> Vec<u32> {
    values(tensor).into_iter().map(f32::to_bits).collect()
}

/// A vector.
pub fn vector(values: &[f32], device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device)
}

/// A matrix of so many columns.
pub fn matrix(values: &[f32], columns: usize, device: &Device) -> Tensor<2> {
    let shape = [values.len() / columns, columns];
    Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
}

/// Random numbers for tests, the same in every run (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    /// Uniform on 0..n.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Uniform on [-1, 1).
    pub fn value(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// So many of these.
    pub fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.value()).collect()
    }

    /// Any finite number: all exponents are alike, those too that are not normal.
    pub fn finite(&mut self) -> f32 {
        loop {
            let x = f32::from_bits(self.bits() as u32);
            if x.is_finite() {
                return x;
            }
        }
    }
}
