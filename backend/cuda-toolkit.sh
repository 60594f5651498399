#!/usr/bin/env bash
# Puts what the feature `cuda` needs at build time into a folder: nvcc 13.0, headers and libraries to link with. Needs neither a GPU, nor a
# driver, nor root; the packages are NVIDIA's own Python wheels, pinned. Newer compilers write PTX that driver 580 does not accept.
# usage: backend/cuda-toolkit.sh DIR; then: . DIR/env.sh
set -euo pipefail

root=$(mkdir -p "${1:?usage: backend/cuda-toolkit.sh DIR}" && cd "$1" && pwd)
python3 -m venv "$root/venv"
"$root/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-cccl==13.0.85 \
    nvidia-cuda-runtime==13.0.96 nvidia-cuda-nvrtc==13.0.88 nvidia-cublas==13.0.2.14 nvidia-curand==10.4.0.35
home=$("$root/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nvidia/cu13

# The wheels carry libfoo.so.N alone; the linker asks for libfoo.so.
for library in "$home"/lib/lib*.so.*; do
    link="$home/lib/$(basename "${library%%.so.*}").so"
    [ -e "$link" ] || ln -s "$(basename "$library")" "$link"
done

# The driver's library exists only beside a GPU. The linker is content with one that has its names.
{
    echo '/* made by cuda-toolkit.sh: names only */'
    grep -ohE '\bcu[A-Z][A-Za-z0-9_]*\b' "$home/include/cuda.h" | LC_ALL=C sort -u | sed 's/.*/void &(void) {}/'
} > "$root/driver_names.c"
gcc -shared -fPIC -w -Wl,-soname,libcuda.so.1 -o "$home/lib/libcuda.so" "$root/driver_names.c"

cat > "$root/env.sh" <<ENV
export CUDA_HOME=$home CUDA_PATH=$home CUDA_ROOT=$home
export CUDA_COMPUTE_CAP=\${CUDA_COMPUTE_CAP:-90}
export PATH=$home/bin:\$PATH
export LIBRARY_PATH=$home/lib\${LIBRARY_PATH:+:\$LIBRARY_PATH}
ENV
echo "ready: . $root/env.sh"
