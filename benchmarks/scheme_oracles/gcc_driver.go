// SPDX-License-Identifier: MIT

package gcc

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSignals reads groups of packets, a line each: delay variation and time since the group before, in ms. It writes the
// detector's signal after each: O overuse, U underuse, N normal. The package reads the clock, so time is synctest's.
func TestSignals(t *testing.T) {
	input, err := os.Open(os.Getenv("GROUPS"))
	if err != nil {
		t.Fatal(err)
	}
	var signals strings.Builder
	synctest.Test(t, func(t *testing.T) {
		detector := newOveruseDetector(newAdaptiveThreshold(), 10*time.Millisecond, func(stats DelayStats) {
			signals.WriteByte("OUN"[stats.Usage])
		})
		estimator := newSlopeEstimator(newKalman(), detector.onDelayStats)
		group := arrivalGroup{departure: time.Now(), arrival: time.Now()}
		estimator.onArrivalGroup(group)
		lines := bufio.NewScanner(input)
		for lines.Scan() {
			var variation, since float64
			if _, err := fmt.Sscan(lines.Text(), &variation, &since); err != nil {
				t.Fatal(err)
			}
			took := time.Duration(since * float64(time.Millisecond))
			time.Sleep(took)
			group.arrival = group.arrival.Add(took)
			group.departure = group.departure.Add(took - time.Duration(variation*float64(time.Millisecond)))
			estimator.onArrivalGroup(group)
		}
	})
	if err := os.WriteFile(os.Getenv("SIGNALS"), []byte(signals.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
