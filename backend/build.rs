//! With the feature `cuda`: compiles the kernels to machine code for one GPU generation. Without it: nothing.

use std::path::PathBuf;
use std::process::Command;

const KERNELS: &str = "src/cuda/kernels.cu";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    for name in ["CUDA_COMPUTE_CAP", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "NVCC"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed={KERNELS}");
    println!("cargo::rerun-if-changed=src/cuda/kernels");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("kernels.cubin");
    // The kernels use instructions that compute capability 8.0 has; the layout of the work was chosen for 9.0.
    let capability = std::env::var("CUDA_COMPUTE_CAP").unwrap_or_else(|_| "90".into());
    let nvcc = nvcc();
    let status = Command::new(&nvcc)
        .args(["-cubin", "-O3", "--std=c++17", &format!("-arch=sm_{capability}"), "-o"])
        .arg(&out)
        .arg(KERNELS)
        .status()
        .unwrap_or_else(|error| {
            panic!("the feature `cuda` needs nvcc, but {} could not be started: {error}", nvcc.display())
        });
    assert!(status.success(), "{} failed on {KERNELS}: {status}", nvcc.display());
}

/// `$NVCC`, or the one in the toolkit's folder, or the one on the path.
fn nvcc() -> PathBuf {
    if let Some(named) = std::env::var_os("NVCC") {
        return named.into();
    }
    for name in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"] {
        let in_folder = std::env::var_os(name).map(|folder| PathBuf::from(folder).join("bin/nvcc"));
        if let Some(found) = in_folder.filter(|path| path.is_file()) {
            return found;
        }
    }
    "nvcc".into()
}
