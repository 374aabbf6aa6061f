// Command model is a scripted stand-in for a model's HTTP service, for tests of real
// agent programs: it speaks the messages interface that Claude Code uses and answers
// with the tool calls of a script, one after another, whatever it is asked.
//
// It listens on loopback inside a session, so that an agent without network can work.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
)

// call is one tool call of a script.
type call struct {
	Tool  string         `json:"tool"`
	Input map[string]any `json:"input"`
}

func main() {
	addr := flag.String("listen", "127.0.0.1:0", "loopback address")
	script := flag.String("script", "", "JSON file: a list of {tool, input}")
	ready := flag.String("ready", "", "file that gets the address once it is served")
	flag.Parse()
	if err := serve(*addr, *script, *ready); err != nil {
		log.Fatal(err)
	}
}

func serve(addr, script, ready string) error {
	b, err := os.ReadFile(script)
	if err != nil {
		return err
	}
	var calls []call
	if err := json.Unmarshal(b, &calls); err != nil {
		return fmt.Errorf("%s: %w", script, err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	if err := os.WriteFile(ready, []byte(l.Addr().String()), 0o600); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) { messages(w, r, calls) })
	mux.HandleFunc("POST /v1/messages/count_tokens", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]int{"input_tokens": 1})
	})
	return http.Serve(l, mux)
}

// request is what matters of a request: whether tools may be called, and how many
// calls of the script were answered already.
type request struct {
	Model    string            `json:"model"`
	Stream   bool              `json:"stream"`
	Tools    []json.RawMessage `json:"tools"`
	Messages []struct {
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

func (r request) answered() int {
	n := 0
	for _, m := range r.Messages {
		n += strings.Count(string(m.Content), `"type":"tool_result"`)
	}
	return n
}

func messages(w http.ResponseWriter, r *http.Request, calls []call) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	block, stop := map[string]any{"type": "text", "text": "The work is done."}, "end_turn"
	if n := req.answered(); len(req.Tools) > 0 && n < len(calls) {
		block = map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%04d", n), "name": calls[n].Tool, "input": calls[n].Input}
		stop = "tool_use"
	}
	msg := map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": req.Model,
		"stop_reason": stop, "stop_sequence": nil, "content": []any{block},
		"usage": map[string]int{"input_tokens": 1, "output_tokens": 1},
	}
	if !req.Stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(msg)
		return
	}
	stream(w, msg, block, stop)
}

// stream sends one message as server-sent events.
func stream(w http.ResponseWriter, msg, block map[string]any, stop string) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(kind string, data map[string]any) {
		data["type"] = kind
		b, err := json.Marshal(data)
		if err == nil {
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
		}
	}
	empty := map[string]any{}
	for k, v := range msg {
		empty[k] = v
	}
	empty["content"], empty["stop_reason"] = []any{}, nil
	send("message_start", map[string]any{"message": empty})
	if block["type"] == "text" {
		send("content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
		send("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": block["text"]}})
	} else {
		input, _ := json.Marshal(block["input"])
		start := map[string]any{"type": "tool_use", "id": block["id"], "name": block["name"], "input": map[string]any{}}
		send("content_block_start", map[string]any{"index": 0, "content_block": start})
		send("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "input_json_delta", "partial_json": string(input)}})
	}
	send("content_block_stop", map[string]any{"index": 0})
	send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil},
		"usage": map[string]int{"output_tokens": 1},
	})
	send("message_stop", map[string]any{})
}
