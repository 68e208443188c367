//! What the interrupted code keeps: vector and mask registers, x87, MXCSR, general registers, flags, red zone.

use crate::common::{Ended, RUNS, fork, install, receiver, runs, signal_stack, until};
use core::arch::asm;
use core::ffi::c_void;
use core::mem::offset_of;
use std::time::{Duration, Instant};
use tocsin_sync::atomic::real::{AtomicU32, AtomicU64, Ordering};
use tocsin_uintr_sys::{Config, Frame, Receiver, Stack, emulation};

static WIDE: AtomicU32 = AtomicU32::new(0);

/// Uses everything: libc's memcpy (vector registers), and by hand what it may leave alone.
unsafe extern "C" fn clobbers(_vector: u64, _frame: *mut Frame, _context: *const c_void) {
    static mut FROM: [u8; 4096] = [0x5A; 4096];
    static mut TO: [u8; 4096] = [0; 4096];
    let run = RUNS.fetch_add(1, Ordering::Release);
    let count = 64 + (run as usize & 2047);
    let mxcsr = 0xFF80u32;
    let cw = 0x0F7Fu16;
    // SAFETY: only this handler, which does not nest here, touches the buffers. The registers are the trampoline's to
    // put back; the floating-point environment is left changed on purpose.
    unsafe {
        core::ptr::copy_nonoverlapping((&raw const FROM).cast::<u8>(), (&raw mut TO).cast::<u8>(), count);
        match WIDE.load(Ordering::Relaxed) {
            512 => asm!(
                "vpxord zmm3, zmm3, zmm3", "vpxord zmm20, zmm20, zmm20", "kxorq k1, k1, k1",
                out("xmm3") _, out("xmm20") _, out("k1") _,
            ),
            256 => asm!("vpxor ymm3, ymm3, ymm3", out("xmm3") _),
            _ => asm!("pxor xmm3, xmm3", out("xmm3") _),
        }
        asm!(
            "fninit", "fld1", "fldpi", "fldcw [{cw}]", "ldmxcsr [{mxcsr}]",
            cw = in(reg) &raw const cw, mxcsr = in(reg) &raw const mxcsr,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
        );
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Damage {
    vector: u64,
    red_zone: u64,
    control: u64,
    x87: u64,
    general: u64,
    flags: u64,
}

/// What the loop's x87 control word makes of the 64-bit significand of pi.
const PI_ROUNDED_UP: f64 = core::f64::consts::PI.next_up();
const PATTERN: u64 = 0x1122_3344_5566_7788;

/// What the loop reads and writes, behind one register.
#[repr(C, align(64))]
struct Live {
    pattern: [u64; 8],
    cw: u16,
    mxcsr: u32,
    clean_cw: u16,
    clean_mxcsr: u32,
    out_x87: f64,
    out_cw: u16,
    out_mxcsr: u32,
    out_zone: u64,
    out_flags: u64,
}

macro_rules! live {
    ($damage:ident, [$($set:literal),*], [$($check:literal),*], [$($clobber:tt)*]) => {{
        let mut live = Live {
            pattern: [PATTERN; 8],
            cw: 0x0B7F,    // rounds up
            mxcsr: 0xDF80, // rounds up, flushes to zero; not what the handler leaves behind
            clean_cw: 0x037F,
            clean_mxcsr: 0x1F80,
            out_x87: 0.0,
            out_cw: 0,
            out_mxcsr: 0,
            out_zone: 0,
            out_flags: 0,
        };
        let (equal, general): (u64, u64);
        // SAFETY: every register that changes is named; the red zone is this function's own while it calls nothing.
        unsafe {
            asm!(
                $($set,)*
                "fninit", "fldpi", "fldcw [{p} + {cw}]", "ldmxcsr [{p} + {mxcsr}]",
                "mov qword ptr [rsp - 8], 0x51", "mov qword ptr [rsp - 128], 0x52", "mov qword ptr [rsp - 64], 0x53",
                "mov r8, 0x808", "mov r9, 0x909", "mov r10, 0xA0A", "mov r11, 0xB0B",
                "mov r12, 0xC0C", "mov r13, 0xD0D", "mov r14, 0xE0E", "mov r15, 0xF0F",
                "mov {t}, 2000",
                // The zero flag must survive from each `dec` to its `jnz`.
                "2: dec {t}", "jnz 2b",
                "lahf", "movzx {t:e}, ah", "mov [{p} + {flags}], {t}",
                "mov {t}, [rsp - 8]", "add {t}, [rsp - 128]", "add {t}, [rsp - 64]", "mov [{p} + {zone}], {t}",
                "add r8, r9", "add r8, r10", "add r8, r11", "add r8, r12", "add r8, r13", "add r8, r14", "add r8, r15",
                "fstp qword ptr [{p} + {x87}]", "fnstcw [{p} + {out_cw}]", "stmxcsr [{p} + {out_mxcsr}]",
                "fninit", "fldcw [{p} + {clean_cw}]", "ldmxcsr [{p} + {clean_mxcsr}]",
                $($check,)*
                p = in(reg) &raw mut live, t = out(reg) _, r = out(reg) equal,
                cw = const offset_of!(Live, cw), mxcsr = const offset_of!(Live, mxcsr),
                clean_cw = const offset_of!(Live, clean_cw), clean_mxcsr = const offset_of!(Live, clean_mxcsr),
                x87 = const offset_of!(Live, out_x87), out_cw = const offset_of!(Live, out_cw),
                out_mxcsr = const offset_of!(Live, out_mxcsr), zone = const offset_of!(Live, out_zone),
                flags = const offset_of!(Live, out_flags),
                out("r8") general, out("r9") _, out("r10") _, out("r11") _,
                out("r12") _, out("r13") _, out("r14") _, out("r15") _, out("rax") _,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                $($clobber)*
            );
        }
        $damage.vector += u64::from(equal & 0xFFFF_FFFF != 1);
        $damage.red_zone += u64::from(live.out_zone != 0x51 + 0x52 + 0x53);
        $damage.general += u64::from(general != 0x808 + 0x909 + 0xA0A + 0xB0B + 0xC0C + 0xD0D + 0xE0E + 0xF0F);
        $damage.flags += u64::from(live.out_flags & 0x40 == 0);
        $damage.x87 += u64::from(live.out_x87 != PI_ROUNDED_UP || live.out_cw != live.cw);
        $damage.control += u64::from(live.out_mxcsr & 0xFFC0 != live.mxcsr);
    }};
}

/// One of 2000 iterations with everything live.
fn live(damage: &mut Damage) {
    match WIDE.load(Ordering::Relaxed) {
        512 => live!(damage,
            ["vmovdqu64 zmm3, [{p}]", "vmovdqu64 zmm20, [{p}]", "mov {t}, 0x1234567", "kmovq k1, {t}"],
            ["vpcmpeqq k2, zmm3, [{p}]", "vpcmpeqq k3, zmm20, [{p}]", "kandb k2, k2, k3", "kmovb {t:e}, k2",
             "kmovq {r}, k1", "cmp {r}, 0x1234567", "sete {r:l}", "movzx {r:e}, {r:l}", "cmp {t:e}, 0xFF",
             "sete {t:l}", "movzx {t:e}, {t:l}", "and {r:e}, {t:e}"],
            [out("xmm3") _, out("xmm20") _, out("k1") _, out("k2") _, out("k3") _,]
        ),
        256 => live!(damage,
            ["vmovdqu ymm3, [{p}]"],
            ["vpcmpeqq ymm4, ymm3, [{p}]", "vpmovmskb {r:e}, ymm4", "cmp {r:e}, -1", "sete {r:l}",
             "movzx {r:e}, {r:l}"],
            [out("xmm3") _, out("xmm4") _,]
        ),
        _ => live!(damage,
            ["movdqu xmm3, [{p}]"],
            ["movdqu xmm4, [{p}]", "pcmpeqd xmm4, xmm3", "pmovmskb {r:e}, xmm4", "cmp {r:e}, 0xFFFF", "sete {r:l}",
             "movzx {r:e}, {r:l}"],
            [out("xmm3") _, out("xmm4") _,]
        ),
    }
}

pub static STOP: AtomicU32 = AtomicU32::new(0);

/// Keeps everything live while another thread rings.
fn interrupted(config: &Config, deliveries: u64) -> Damage {
    let wide = match () {
        () if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq") => 512,
        () if is_x86_feature_detected!("avx2") => 256,
        () => 128,
    };
    WIDE.store(wide, Ordering::Relaxed);
    signal_stack();
    let receiver = install(config, clobbers);
    let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
    let ringer = std::thread::spawn(move || {
        let mut pause = 1u32;
        while STOP.load(Ordering::Relaxed) == 0 {
            sender.send();
            // Other places each time.
            pause = pause.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            for _ in 0..200 + pause % 1024 {
                core::hint::spin_loop();
            }
        }
    });
    let mut damage = Damage::default();
    let deadline = Instant::now() + Duration::from_secs(100);
    while runs() < deliveries && Instant::now() < deadline {
        for _ in 0..1000 {
            live(&mut damage);
        }
    }
    let seen = runs();
    // Its handler would still run between here and the end.
    let masked = tocsin_uintr_sys::Masked::new();
    STOP.store(1, Ordering::Relaxed);
    ringer.join().unwrap();
    println!("{wide} bits: {seen} deliveries, {damage:?}");
    assert!(seen >= deliveries);
    drop(receiver);
    drop(masked);
    damage
}

pub fn registers_survive() {
    for stack in [Stack::Own(64 * 1024), Stack::Interrupted, Stack::Kernel(64 * 1024)] {
        let child = fork(|| {
            let damage = interrupted(&Config::on(stack), 5_000);
            assert_eq!(damage, Damage::default());
        });
        assert_eq!(child.wait(), Ended::Exit(0), "{stack:?}");
    }
}

/// A proof that cannot fail proves nothing.
pub fn a_broken_trampoline_is_caught() {
    let child = fork(|| {
        let mut config = Config::default();
        config.broken_trampoline = true;
        let damage = interrupted(&config, 2_000);
        let caught = damage.vector > 0 && damage.x87 > 0 && damage.control > 0;
        let rest = damage.general + damage.red_zone + damage.flags;
        // SAFETY: ends the process; what its registers hold by now is of no interest.
        unsafe { libc::_exit(if caught && rest == 0 { 42 } else { 1 }) };
    });
    assert_eq!(child.wait(), Ended::Exit(42), "a trampoline that saves no vector registers went unnoticed");
}

static SEEN: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

unsafe extern "C" fn notes_environment(_vector: u64, _frame: *mut Frame, _context: *const c_void) {
    let (mut mxcsr, mut cw, flags) = (0u32, 0u16, 0u64);
    let mut flags = flags;
    // SAFETY: locals of the sizes that the instructions store.
    unsafe {
        asm!("stmxcsr [{m}]", "fnstcw [{c}]", m = in(reg) &raw mut mxcsr, c = in(reg) &raw mut cw);
        asm!("pushfq", "pop {}", inout(reg) flags);
    }
    SEEN[0].store(mxcsr.into(), Ordering::Relaxed);
    SEEN[1].store(cw.into(), Ordering::Relaxed);
    SEEN[2].store(flags, Ordering::Relaxed);
    RUNS.fetch_add(1, Ordering::Release);
}

pub fn default_floating_point_environment() {
    let receiver = install(&Config::default(), notes_environment);
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    let (mine, clean) = ((0x0F7Fu16, 0xFF80u32), (0x037Fu16, 0x1F80u32));
    let mut after = (0u16, 0u32);
    for round in 1..=10 {
        // SAFETY: valid control words, back to the defaults at the end; the sender is live.
        unsafe {
            asm!(
                "fldcw [{c}]", "ldmxcsr [{m}]",
                "2: cmp qword ptr [{runs}], {round}", "je 3f",
                "senduipi {index}",
                "mov ecx, 1000", "4: dec ecx", "jnz 4b",
                "jmp 2b",
                "3: fnstcw [{ac}]", "stmxcsr [{am}]", "fldcw [{cc}]", "ldmxcsr [{cm}]",
                c = in(reg) &raw const mine.0, m = in(reg) &raw const mine.1,
                ac = in(reg) &raw mut after.0, am = in(reg) &raw mut after.1,
                cc = in(reg) &raw const clean.0, cm = in(reg) &raw const clean.1,
                runs = in(reg) RUNS.as_ptr(), round = in(reg) round, index = in(reg) u64::from(sender.index()),
                out("ecx") _,
            );
        }
        until("the ring is seen", || runs() >= round);
        assert_eq!((SEEN[0].load(Ordering::Relaxed), SEEN[1].load(Ordering::Relaxed)), (0x1F80, 0x037F));
        assert_eq!((after.0, after.1 & 0xFFC0), mine);
        RUNS.store(round, Ordering::Relaxed);
    }
}

pub fn direction_flag_is_clear() {
    const DIRECTION: u64 = 1 << 10;
    let receiver = install(&Config::default(), notes_environment);
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    let after: u64;
    // SAFETY: the flag is cleared again before anything else runs; the sender is live.
    unsafe {
        asm!(
            "std",
            "senduipi {index}",
            "2: cmp qword ptr [{runs}], 0", "je 2b",
            "pushfq", "pop {after}",
            "cld",
            index = in(reg) u64::from(sender.index()), runs = in(reg) RUNS.as_ptr(), after = out(reg) after,
        );
    }
    assert_eq!(SEEN[2].load(Ordering::Relaxed) & DIRECTION, 0, "in the handler");
    assert_eq!(after & DIRECTION, DIRECTION, "after it");
}

/// The kernel's `struct rseq_cs`.
#[repr(C, align(32))]
pub struct Section {
    version: u32,
    flags: u32,
    /// Start, length, abort address.
    pub words: [u64; 3],
}

impl Section {
    pub fn new(flags: u32) -> Section {
        Section { version: 0, flags, words: [0; 3] }
    }
}

/// One critical section that only an abort or the stop word ends: whether it was aborted.
pub fn section(area: *mut c_void, section: &mut Section) -> bool {
    let aborted: u64;
    // SAFETY: the descriptor and the area are live; the code between the labels keeps to the rules of restartable
    // sequences.
    unsafe {
        asm!(
            "lea {t}, [rip + 2f]", "mov [{cs} + 8], {t}",
            "lea {u}, [rip + 3f]", "sub {u}, {t}", "mov [{cs} + 16], {u}",
            "lea {t}, [rip + 4f]", "mov [{cs} + 24], {t}",
            "mov [{area} + 8], {cs}",
            "2:", "cmp dword ptr [{stop}], 0", "je 2b",
            "3:", "xor {t:e}, {t:e}", "jmp 5f",
            // The signature before the abort address.
            ".byte 0x0f, 0xb9, 0x3d", ".long 0x53053053",
            "4:", "mov {t:e}, 1",
            "5:", "mov qword ptr [{area} + 8], 0",
            t = out(reg) aborted, u = out(reg) _, cs = in(reg) section, area = in(reg) area, stop = in(reg) STOP.as_ptr(),
        );
    }
    aborted != 0
}

fn ring_during_sections(receiver: &Receiver, area: *mut c_void, flags: u32, rounds: u64) -> u64 {
    let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
    let ringer = std::thread::spawn(move || {
        while runs() < rounds {
            sender.send();
            for _ in 0..2000 {
                core::hint::spin_loop();
            }
        }
        STOP.store(1, Ordering::Relaxed);
    });
    let mut descriptor = Section::new(flags);
    let mut aborted = 0;
    while STOP.load(Ordering::Relaxed) == 0 {
        aborted += u64::from(section(area, &mut descriptor));
    }
    ringer.join().unwrap();
    aborted
}

pub fn restartable_sequence_is_aborted() {
    let receiver = receiver();
    let area = emulation::rseq_area(false);
    assert!(!area.is_null(), "this C library registers no restartable sequences");
    let aborted = ring_during_sections(&receiver, area, 0, 500);
    let ours = receiver.statistics().aborted_sequences;
    println!("{ours} by handlers, {aborted} in all, {} runs", runs());
    assert!(ours > 100 && aborted >= ours, "{ours} of {aborted}");
}

pub fn restartable_sequence_that_says_no() {
    let receiver = receiver();
    let area = emulation::rseq_area(true);
    const NO_RESTART_ON_SIGNAL: u32 = 2;
    let aborted = ring_during_sections(&receiver, area, NO_RESTART_ON_SIGNAL, 500);
    assert_eq!((aborted, receiver.statistics().aborted_sequences), (0, 0));
    assert!(runs() >= 500);
}
