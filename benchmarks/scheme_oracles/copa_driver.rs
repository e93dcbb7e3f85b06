// SPDX-License-Identifier: MIT
//! Drives the Copa of the crate tquic, whose files are copied beside this one and not changed, by lines on standard
//! input. What those files need of the rest of their crate is declared here.
//!
//!     S number now_us                   a packet leaves
//!     A number now_us rtt_us bytes      it is acknowledged
//!     L now_us bytes                    so much is lost
//!
//! Each line is answered by one: window and pacing rate in bytes, velocity, direction, mode, delta.

use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

pub const TIMER_GRANULARITY: Duration = Duration::from_millis(1);
pub const INITIAL_RTT: Duration = Duration::from_millis(333);
pub const DEFAULT_SEND_UDP_PAYLOAD_SIZE: usize = 1500;

pub struct RecoveryConfig {
    pub max_datagram_size: usize,
    pub min_congestion_window: u64,
    pub initial_congestion_window: u64,
    pub initial_rtt: Duration,
    pub copa_slow_start_delta: f64,
    pub copa_steady_delta: f64,
    pub copa_use_standing_rtt: bool,
}

pub mod connection {
    pub mod rtt;
    pub mod space {
        #[derive(Default)]
        pub struct RateSamplePacketState;

        pub struct SentPacket {
            pub pkt_num: u64,
            pub time_sent: std::time::Instant,
            pub sent_size: usize,
            pub rate_sample_state: RateSamplePacketState,
        }
    }
}

pub mod congestion_control {
    use crate::connection::rtt::RttEstimator;
    use crate::connection::space::SentPacket;
    use std::time::Instant;

    pub mod copa;
    pub mod minmax;

    #[derive(Debug, Default, Clone)]
    pub struct CongestionStats {
        pub bytes_in_flight: u64,
        pub bytes_sent_in_slow_start: u64,
        pub bytes_acked_in_slow_start: u64,
        pub bytes_lost_in_slow_start: u64,
        pub bytes_sent_in_total: u64,
        pub bytes_acked_in_total: u64,
        pub bytes_lost_in_total: u64,
    }

    pub trait CongestionController {
        fn name(&self) -> &str;
        fn on_sent(&mut self, now: Instant, packet: &mut SentPacket, bytes_in_flight: u64);
        fn begin_ack(&mut self, now: Instant, bytes_in_flight: u64);
        fn on_ack(&mut self, packet: &mut SentPacket, now: Instant, app_limited: bool, rtt: &RttEstimator, bytes_in_flight: u64);
        fn end_ack(&mut self);
        fn on_congestion_event(&mut self, now: Instant, packet: &SentPacket, persistent: bool, lost_bytes: u64, bytes_in_flight: u64);
        fn in_slow_start(&self) -> bool;
        fn congestion_window(&self) -> u64;
        fn pacing_rate(&self) -> Option<u64>;
        fn initial_window(&self) -> u64;
        fn minimal_window(&self) -> u64;
        fn stats(&self) -> &CongestionStats;
    }
}

use congestion_control::copa::{Copa, CopaConfig};
use congestion_control::CongestionController;
use connection::rtt::RttEstimator;
use connection::space::{RateSamplePacketState, SentPacket};

fn packet(number: u64, at: Instant, bytes: usize) -> SentPacket {
    SentPacket { pkt_num: number, time_sent: at, sent_size: bytes, rate_sample_state: RateSamplePacketState }
}

/// A field of the debugging text: the crate has no other way to its state.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let from = text.find(name).expect(name) + name.len();
    text[from..].split([',', ' ', '}']).next().unwrap()
}

fn main() {
    let arguments: Vec<f64> = std::env::args().skip(1).map(|word| word.parse().unwrap()).collect();
    let delta = arguments[0];
    let config = RecoveryConfig {
        max_datagram_size: DEFAULT_SEND_UDP_PAYLOAD_SIZE,
        min_congestion_window: 2,
        initial_congestion_window: 10,
        initial_rtt: Duration::from_millis(100),
        copa_slow_start_delta: delta,
        copa_steady_delta: delta,
        // false is the paper's half of a round trip, true a whole one
        copa_use_standing_rtt: arguments[1] != 0.0,
    };
    let mut copa = Copa::new(CopaConfig::from(&config));
    let mut rtt = RttEstimator::new(config.initial_rtt);
    let began = Instant::now();
    let stdout = io::stdout();
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let moment = |at: usize| began + Duration::from_micros(number(at));
        match words[0] {
            "S" => copa.on_sent(moment(2), &mut packet(number(1), moment(2), DEFAULT_SEND_UDP_PAYLOAD_SIZE), 0),
            "A" => {
                let took = Duration::from_micros(number(3));
                rtt.update(Duration::ZERO, took);
                copa.begin_ack(moment(2), 0);
                copa.on_ack(&mut packet(number(1), moment(2) - took, number(4) as usize), moment(2), false, &rtt, 0);
                copa.end_ack();
            }
            _ => copa.on_congestion_event(moment(1), &packet(0, moment(1), 0), false, number(2), 0),
        }
        let text = format!("{:?}", copa);
        let inner = &text[text.find("Velocity {").unwrap()..];
        let (velocity, way) = (field(inner, " velocity: "), field(inner, "direction: "));
        let (mode, slow) = (field(&text, "mode: "), copa.in_slow_start());
        let mut out = stdout.lock();
        let (window, pacing) = (copa.congestion_window(), copa.pacing_rate().unwrap());
        writeln!(out, "{} {} {} {} {} {} {}", window, pacing, velocity, way, mode, field(&text, " delta: "), slow).unwrap();
        out.flush().unwrap();
    }
}
