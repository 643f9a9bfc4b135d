package relay

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTheEndOfATransactionIsLost(t *testing.T) {
	for _, lost := range []string{"request", "answer"} {
		t.Run(lost, func(t *testing.T) {
			onBothBrokers(t, func(t *testing.T, w *world) {
				w.addLanes(1)
				w.store(w.lanes[0], "oso")
				n := &network{loseAnswer: lost == "answer"}
				n.armed.Store(true)
				s, stop := w.start(Config{}, kgo.Dialer(n.dial))
				w.settle()
				if s.Stats().Restarts == 0 || n.armed.Load() {
					t.Errorf("got %d restarts, want the loss to cause one", s.Stats().Restarts)
				}
				// What was not committed is published again, in two transactions; what was is not.
				if got, want := s.Stats().Transactions, map[bool]int64{true: 0, false: 2}[n.loseAnswer]; got != want {
					t.Errorf("got %d transactions whose end was confirmed, want %d", got, want)
				}
				stop()
				w.verify()
				w.store(w.lanes[0], "o")
				w.start(Config{})
				w.settle()
				w.verify()
			})
		})
	}
}

// A network loses one end of a transaction, or the broker's answer to it after it was carried out.
type network struct {
	armed      atomic.Bool
	loseAnswer bool
}

func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, network: n}, nil
}

type conn struct {
	net.Conn
	network *network
	cut     atomic.Bool // the next answer is the one to lose
}

var errCut = errors.New("the network has lost it")

func (c *conn) Write(p []byte) (int, error) {
	// A request begins with its length and its kind.
	if len(p) >= 6 && binary.BigEndian.Uint16(p[4:]) == uint16(kmsg.EndTxn) && c.network.armed.CompareAndSwap(true, false) {
		if !c.network.loseAnswer {
			return len(p), c.Close() // sent, as far as the sender can tell
		}
		c.cut.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.cut.Load() {
		return 0, errors.Join(errCut, c.Close())
	}
	return n, err
}
