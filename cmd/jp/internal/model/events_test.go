package model

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEventLines(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"event: a\ndata: {}\n\n", "event: a\ndata: {}\n\n"},
		{"event: a\r\ndata: {}\r\n\r\n", "event: a\ndata: {}\n\n"},
		{"event: a\rdata: {}\r\r", "event: a\ndata: {}\n\n"},
		{"data:\n\ndata: x\n\n", "\ndata: x\n\n"},
		{"data: \r\n\r\ndata:x\r\n", "\ndata:x\n"},
		{"data:  \n", "data:  \n"},
		{"dat\nda", "dat\nda"},
		{"data:", "data:"},
		{": ping\n\n", ": ping\n\n"},
		{"\r\r\n\n", "\n\n\n"},
	} {
		for name, from := range map[string]io.Reader{
			"whole": strings.NewReader(tt.in), "bytes": iotest.OneByteReader(strings.NewReader(tt.in)), "end with data": iotest.DataErrReader(strings.NewReader(tt.in)),
		} {
			got, err := io.ReadAll(&eventLines{from: from})
			if err != nil || string(got) != tt.want {
				t.Errorf("%s: %q becomes %q, %v, want %q", name, tt.in, got, err, tt.want)
			}
		}
	}
	if err := iotest.TestReader(&eventLines{from: bytes.NewReader(bytes.Repeat([]byte("data: x\r\n"), 3000))}, bytes.Repeat([]byte("data: x\n"), 3000)); err != nil {
		t.Error(err)
	}
}
