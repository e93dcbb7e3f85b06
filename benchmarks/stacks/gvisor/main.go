// SPDX-License-Identifier: MIT
// A web server on gVisor's TCP stack (gvisor.dev/gvisor/pkg/tcpip), behind a TAP device.
//
//	gvisor DEVICE ADDRESS GATEWAY PAGE_BYTES
//
// The stack's own settings: congestion control reno, SACK, an initial window of 10, a minimum timeout of 0.2 s.
package main

import (
	"bytes"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"

	"gvisor.dev/gvisor/pkg/rawfile"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/link/tun"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const nic = 1

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: gvisor DEVICE ADDRESS GATEWAY PAGE_BYTES")
	}
	size, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	address := tcpip.AddrFrom4Slice(net.ParseIP(os.Args[2]).To4())
	gateway := tcpip.AddrFrom4Slice(net.ParseIP(os.Args[3]).To4())
	s := newStack(os.Args[1], address, gateway)
	listener, err := gonet.ListenTCP(s, tcpip.FullAddress{NIC: nic, Addr: address, Port: 80}, ipv4.ProtocolNumber)
	if err != nil {
		log.Fatal(err)
	}
	page := bytes.Repeat([]byte("x"), size)
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(page)
	})))
}

func newStack(device string, address, gateway tcpip.Address) *stack.Stack {
	fd, err := tun.OpenTAP(device)
	if err != nil {
		log.Fatal(err)
	}
	mtu, err := rawfile.GetMTU(device)
	if err != nil {
		log.Fatal(err)
	}
	mac, err := tcpip.ParseMACAddress("02:00:00:00:77:02")
	if err != nil {
		log.Fatal(err)
	}
	link, err := fdbased.New(&fdbased.Options{FDs: []int{fd}, MTU: mtu, EthernetHeader: true, Address: mac})
	if err != nil {
		log.Fatal(err)
	}
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	if err := s.CreateNIC(nic, link); err != nil {
		log.Fatal(err)
	}
	own := tcpip.ProtocolAddress{
		Protocol:          ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: address, PrefixLen: 24},
	}
	if err := s.AddProtocolAddress(nic, own, stack.AddressProperties{}); err != nil {
		log.Fatal(err)
	}
	s.SetRouteTable([]tcpip.Route{
		{Destination: own.AddressWithPrefix.Subnet(), NIC: nic},
		{Destination: header.IPv4EmptySubnet, Gateway: gateway, NIC: nic},
	})
	sack := tcpip.TCPSACKEnabled(true)
	if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, &sack); err != nil {
		log.Fatal(err)
	}
	return s
}
