package otel

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestRefused: an answer for good, such as 400, drops what waits and is no end of the traces of a
// process that lives on.
func TestRefused(t *testing.T) {
	var posts, good atomic.Int64
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if posts.Add(1) == 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		good.Add(1)
	}))
	defer c.Close()
	tr := &Tracer{Env: func(name string) string {
		if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
			return c.URL
		}
		return ""
	}}
	ctx := tr.Into(context.Background())
	begin := func() *Span {
		_, s := Start(ctx, "a prompt", Internal)
		return s
	}
	first := begin()
	tr.queue.rest = time.Millisecond
	first.End()
	for good.Load() == 0 {
		begin().End()
		time.Sleep(time.Millisecond)
	}
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := tr.Close(within); err == nil || !strings.Contains(err.Error(), "it answered 400 Bad Request") {
		t.Errorf("Close = %v", err)
	}
}
