// SPDX-License-Identifier: MIT
//! A web server on smoltcp, behind a TAP device.
//!
//!     stack-smoltcp DEVICE ADDRESS GATEWAY PAGE_BYTES
//!
//! As smoltcp comes it has no congestion control: it sends what the peer's window and its own buffer hold. The sockets
//! are used again and again, and each keeps its estimate of the round trip for the next connection.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{wait, Medium, TunTapInterface};
use smoltcp::socket::tcp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address};
use std::os::unix::io::AsRawFd;

const SOCKETS: usize = 64;
const RECEIVE_BYTES: usize = 65536;
const SEND_BYTES: usize = 262_144;
const IDLE_LIMIT: Duration = Duration::from_secs(60);
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// What one socket has heard, and what it still has to say.
#[derive(Default)]
struct Talk {
    heard: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, device, address, gateway, page] = &arguments[..] else {
        panic!("usage: stack-smoltcp DEVICE ADDRESS GATEWAY PAGE_BYTES");
    };
    let page: usize = page.parse().expect("PAGE_BYTES is a number");
    let mut device = TunTapInterface::new(device, Medium::Ethernet).expect("the TAP device exists");
    let fd = device.as_raw_fd();
    let mut config = Config::new(EthernetAddress([2, 0, 0, 0, 0x78, 2]).into());
    config.random_seed = 42;
    let mut interface = Interface::new(config, &mut device, Instant::now());
    let own: Ipv4Address = address.parse().expect("ADDRESS is an IPv4 address");
    let gateway: Ipv4Address = gateway.parse().expect("GATEWAY is an IPv4 address");
    interface.update_ip_addrs(|all| all.push(IpCidr::new(IpAddress::Ipv4(own), 24)).expect("room for an address"));
    interface.routes_mut().add_default_ipv4_route(gateway).expect("room for a route");
    let mut sockets = SocketSet::new(vec![]);
    let mut talks: Vec<(SocketHandle, Talk)> =
        (0..SOCKETS).map(|_| (sockets.add(new_socket()), Talk::default())).collect();
    loop {
        interface.poll(Instant::now(), &mut device, &mut sockets);
        for (handle, talk) in &mut talks {
            serve(sockets.get_mut::<tcp::Socket>(*handle), talk, page);
        }
        let delay = interface.poll_delay(Instant::now(), &sockets).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
        wait(fd, Some(delay)).ok();
    }
}

fn new_socket() -> tcp::Socket<'static> {
    let mut socket = tcp::Socket::new(
        tcp::SocketBuffer::new(vec![0; RECEIVE_BYTES]),
        tcp::SocketBuffer::new(vec![0; SEND_BYTES]),
    );
    socket.set_timeout(Some(IDLE_LIMIT));
    socket
}

/// Listen again, read a request, write the page: whatever the socket is ready for.
fn serve(socket: &mut tcp::Socket, talk: &mut Talk, page: usize) {
    if !socket.is_open() {
        *talk = Talk::default();
        socket.listen(80).expect("a closed socket can listen");
        return;
    }
    if socket.can_recv() {
        let heard = &mut talk.heard;
        socket.recv(|bytes| { heard.extend_from_slice(bytes); (bytes.len(), ()) }).ok();
        if talk.answer.is_empty() && talk.heard.windows(4).any(|four| four == b"\r\n\r\n") {
            let head = format!("HTTP/1.1 200 OK\r\nServer: smoltcp\r\nContent-Length: {page}\r\nConnection: close\r\n\r\n");
            talk.answer = head.into_bytes();
            talk.answer.extend(std::iter::repeat(b'x').take(page));
        }
    }
    if talk.sent < talk.answer.len() && socket.can_send() {
        talk.sent += socket.send_slice(&talk.answer[talk.sent..]).unwrap_or(0);
    } else if socket.state() == tcp::State::CloseWait {
        socket.close();
    }
    if !talk.answer.is_empty() && talk.sent == talk.answer.len() {
        socket.close();
    }
}
