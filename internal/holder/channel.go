package holder

import (
	"io"
	"net"
	"os"

	"github.com/fxamacker/cbor/v2"
)

// Values between the processes of a session are CBOR (RFC 8949): paths need not be UTF-8,
// which JSON would change, and a process that is loaded for one start learns no more of a
// type than it uses.
var encoding, decoding = modes()

// modes panics at the start of the program when an option is not one.
func modes() (cbor.EncMode, cbor.DecMode) {
	enc, err := cbor.EncOptions{Time: cbor.TimeRFC3339Nano}.EncMode()
	if err != nil {
		panic(err)
	}
	// A reader bounds the bytes of a message: that is enough.
	dec, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid, MaxArrayElements: 1<<31 - 1, MaxMapPairs: 1<<31 - 1}.DecMode()
	if err != nil {
		panic(err)
	}
	return enc, dec
}

// Encode writes v for a Decode in another process of the same program.
func Encode(w io.Writer, v any) error { return encoding.NewEncoder(w).Encode(v) }

// Decode reads one value. It may read beyond it.
func Decode(r io.Reader, v any) error { return decoding.NewDecoder(r).Decode(v) }

// Channel is a connection on which each side sends values of one type, and descriptors
// before them. A type is learned when its first value comes; so the two sides exchange one
// that means nothing while nobody waits for them: one by Open, the other by Accept, before
// anything else.
type Channel[Out, In any] struct {
	*net.UnixConn
	enc *cbor.Encoder
	dec *cbor.Decoder
}

// NewChannel returns a channel that takes at most limit bytes from the other side.
func NewChannel[Out, In any](conn *net.UnixConn, limit int64) *Channel[Out, In] {
	return &Channel[Out, In]{conn, encoding.NewEncoder(conn), decoding.NewDecoder(io.LimitReader(conn, limit))}
}

// Open begins, and waits for the other side to Accept. Only this side sends descriptors.
func (c *Channel[Out, In]) Open() error {
	var out Out
	if err := c.enc.Encode(&out); err != nil {
		return err
	}
	_, err := c.Receive()
	return err
}

// Accept is the other half of Open.
func (c *Channel[Out, In]) Accept() error {
	if _, err := c.Receive(); err != nil {
		return err
	}
	var out Out
	return c.enc.Encode(&out)
}

// Send sends a value with descriptors before it, if files is not nil.
func (c *Channel[Out, In]) Send(out Out, files []*os.File) error {
	if files != nil {
		if err := sendFiles(c.UnixConn, files); err != nil {
			return err
		}
	}
	return c.enc.Encode(&out)
}

// Receive waits for a value. io.EOF: the other side ended without one.
func (c *Channel[Out, In]) Receive() (in In, err error) {
	err = c.dec.Decode(&in)
	return in, err
}

// ReceiveFiles is Receive for a value that descriptors come with. The other side sends it
// only after it had an answer to all that it sent before: so the decoder has read no byte
// ahead, and the descriptors are still with theirs.
func (c *Channel[Out, In]) ReceiveFiles() (in In, files []*os.File, err error) {
	if files, err = receiveFiles(c.UnixConn); err != nil {
		return in, nil, err
	}
	in, err = c.Receive()
	return in, files, err
}
