//! Several threads that find, open, use and close devices of one process at the same time.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::thread;

use zinc_graph::ops;
use zinc_vulkan::{Device, Vulkan, device};

const THREADS: usize = 3;
const ROUNDS: usize = 3;

#[test]
fn devices_of_several_threads_do_not_disturb_each_other() {
    if device::candidates().ok().is_none_or(|candidates| candidates.is_empty()) {
        eprintln!("SKIP: no Vulkan device");
        return;
    }
    let cases = ops::cases();
    let case = cases.iter().find(|case| case.name.starts_with("rms_norm/")).unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let id = device::candidates().unwrap()[0].id.clone();
                    let device = Device::open(&id, &[]).unwrap();
                    case.run(&mut Vulkan::new(&device).unwrap()).unwrap();
                }
            });
        }
    });
}
