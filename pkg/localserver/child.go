package localserver

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// A Child is a server process that does not outlive this one.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone
	err  error         // how it ended; read after done
}

// StartChild starts cmd in a process group of its own, so that Ctrl-C at a terminal reaches only this process, which
// then stops its servers in order. On Linux the kernel sends the signal last to the child when this process ends
// without having stopped it, kill -9 included.
func StartChild(cmd *exec.Cmd, last syscall.Signal) (*Child, error) {
	isolate(cmd, last)
	c := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// To the kernel the parent is the thread that forked: were it to end, last would be sent. So it is kept until
		// the child is gone.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// Done is closed when the process has ended, for whatever reason.
func (c *Child) Done() <-chan struct{} { return c.done }

// Stop sends ask and waits for the process to end. When ctx ends first, it sends force, waits again and returns the
// error of ctx. A process that has ended already is no error.
func (c *Child) Stop(ctx context.Context, ask, force syscall.Signal) error {
	_ = c.cmd.Process.Signal(ask) // fails only when the process is gone, which done tells
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		_ = c.cmd.Process.Signal(force)
		<-c.done
		return fmt.Errorf("stop %s, ended by %v: %w", c.cmd.Path, force, ctx.Err())
	}
}
