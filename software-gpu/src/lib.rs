//! Shared helpers of the tests on a software GPU.

use std::panic::catch_unwind;
use std::sync::OnceLock;

use epsilab::burn::backend::Wgpu;
use epsilab::burn::prelude::*;
use epsilab::burn::tensor::DeviceKind;

/// The software GPU: a Vulkan driver that computes on the CPU.
///
/// # Panics
/// If there is no such driver: a test that can't run must not pass.
pub fn gpu() -> Device {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    let start = || {
        let device = Device::wgpu(DeviceKind::Cpu);
        let is_working = || Tensor::<1>::ones([2], &device).sum().into_scalar::<f32>() == 2.0;
        catch_unwind(std::panic::AssertUnwindSafe(is_working)).ok()?.then_some(device)
    };
    DEVICE.get_or_init(start).clone().expect(
        "no software GPU was found: install a Vulkan driver that runs on the CPU, \
         on Debian the package mesa-vulkan-drivers",
    )
}

/// The CPU, which runs the reference version of every operation.
pub fn cpu() -> Device {
    Device::flex()
}

/// The tensor's values, row-major.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect("an f32 tensor")
}

/// The bits of the tensor's values, to compare signed zeros and NaN.
pub fn bits<const D: usize>(tensor: Tensor<D>) -> Vec<u32> {
    values(tensor).into_iter().map(f32::to_bits).collect()
}

/// A vector on a device.
pub fn vector(values: &[f32], device: &Device) -> Tensor<1> {
    padded(Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device))
}

/// A matrix of `columns` columns on a device.
pub fn matrix(values: &[f32], columns: usize, device: &Device) -> Tensor<2> {
    let shape = [values.len() / columns, columns];
    padded(Tensor::from_data(TensorData::new(values.to_vec(), shape), device))
}

/// On a GPU, the same tensor in a buffer that is too long, with ones beyond its end. CUDA pads
/// buffers and a software GPU does not, but kernels have to compute the same on both.
fn padded<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    const PADDING: usize = 27;
    let Ok(mut on_gpu) = tensor.clone().try_into_primitive::<Wgpu>() else { return tensor };
    let all = values(tensor).into_iter().chain([1.0; PADDING]);
    let bytes: Vec<u8> = all.flat_map(f32::to_ne_bytes).collect();
    on_gpu.handle = on_gpu.client.create_from_slice(&bytes);
    Tensor::from_primitive::<Wgpu>(on_gpu)
}

/// A deterministic random number generator for tests (SplitMix64).
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

    /// A uniform integer in 0..n.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// A uniform value in [-1, 1).
    pub fn value(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// `n` uniform values in [-1, 1).
    pub fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.value()).collect()
    }

    /// A finite value with random bits: all exponents are equally likely, including subnormals.
    pub fn finite(&mut self) -> f32 {
        loop {
            let x = f32::from_bits(self.bits() as u32);
            if x.is_finite() {
                return x;
            }
        }
    }
}
