package call

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// wish is the byte that asks for a connection.
const wish = 'c'

// ErrEnded is returned by Ask where the tool call, or the jp that runs the tool, ended before the
// command.
var ErrEnded = errors.New("the tool call that this jp belongs to has ended")

// Ask has the jp at the other end of descriptor fd run a command line, and returns its exit status.
// fd is a number, the value of tools.CallVariable. args are without the program's name. stdin is
// read if the command reads it; a Read of it may still be running when Ask returns.
func Ask(fd string, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int, err error) {
	body, err := encodeArgs(args)
	if err != nil {
		return 0, err
	}
	line, err := connect(fd)
	if err != nil {
		return 0, err
	}
	defer line.Close()
	if err := writeFrame(line, frameArgs, body); err != nil {
		return 0, ended(err)
	}
	wanted := false
	for {
		kind, body, err := readFrame(line, string([]byte{frameWant, frameOutput, frameErrors, frameExit}))
		if err != nil {
			return 0, ended(err)
		}
		switch kind {
		case frameWant:
			if !wanted {
				wanted = true
				go feed(line, stdin)
			}
		case frameOutput:
			_, err = stdout.Write(body)
		case frameErrors:
			_, err = stderr.Write(body)
		case frameExit:
			if len(body) != 1 {
				return 0, &frameError{"an exit status is missing"}
			}
			return int(body[0]), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// ended returns ErrEnded where the peer went away, and err where it broke the protocol.
func ended(err error) error {
	if bad := (*frameError)(nil); errors.As(err, &bad) {
		return err
	}
	return ErrEnded
}

// feed sends stdin. Whoever reads the answer gets its errors.
func feed(line io.Writer, stdin io.Reader) {
	buf := make([]byte, maxChunk)
	for {
		n, err := stdin.Read(buf)
		if n > 0 && writeFrame(line, frameInput, buf[:n]) != nil {
			return
		}
		if err != nil {
			_ = writeFrame(line, frameInput, nil)
			return
		}
	}
}

// connect asks for a connection over the inherited socket.
func connect(number string) (*os.File, error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 0 || strconv.Itoa(fd) != number {
		return nil, fmt.Errorf("descriptor %q: not a number", number)
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM {
		return nil, fmt.Errorf("descriptor %d: not the socket that a tool is given", fd)
	}
	if name, err := unix.Getsockname(fd); err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	} else if _, ok := name.(*unix.SockaddrUnix); !ok {
		return nil, fmt.Errorf("descriptor %d: not the socket that a tool is given", fd)
	}
	for {
		_, err := unix.SendmsgN(fd, []byte{wish}, nil, nil, unix.MSG_NOSIGNAL)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return nil, ErrEnded
		}
	}
	// Other processes ask over the same socket. Any connection that comes will do: nobody else gets
	// the same one.
	var b [1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(fd, b[:], oob, 0)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n == 0:
			return nil, ErrEnded
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(messages) != 1 {
			return nil, &frameError{"no connection came"}
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != 1 {
			return nil, &frameError{"no connection came"}
		}
		unix.CloseOnExec(fds[0])
		return os.NewFile(uintptr(fds[0]), "line"), nil
	}
}
