// Command callers holds many cheap calls at once for the benches of calls: it encodes and decodes no audio.
//
// Each caller joins a room of its own, publishes the packets of an Ogg Opus file, waits for the agent's voice and for
// its end, and speaks again. It reads lines from standard input and prints one JSON object a turn:
//
//	add <n>                more callers, in rooms whose names are numbered
//	call <room> <token>    one caller with this token; agents that come, their voice and their leaving are printed too
//	hang-up <room>         the end of such a call
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lksdk "github.com/livekit/server-sdk-go/v2"
	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"
	"github.com/pion/webrtc/v4/pkg/media/oggreader"
)

const (
	frame        = 20 * time.Millisecond
	voiceBytes   = 20 // a packet of silence has one byte; every 400 ms one of about 55 comes alone (comfort noise)
	voiceGap     = 60 * time.Millisecond
	agentQuiet   = 400 * time.Millisecond
	answerLimit  = 10 * time.Second
	firstLimit   = 30 * time.Second
	betweenTurns = 600 * time.Millisecond
)

var silence = []byte{0xF8, 0xFF, 0xFE}

type turn struct {
	Call    int     `json:"call"`
	At      float64 `json:"at"`                   // Unix seconds
	Latency float64 `json:"latency_ms,omitempty"` // from the last packet of speech to the first of the agent's voice
	Joined  float64 `json:"joined_ms,omitempty"`  // from dialling to the agent's track
	Error   string  `json:"error,omitempty"`
	Room    string  `json:"room,omitempty"`
	Event   string  `json:"event,omitempty"` // "track", "voice" (after a pause), "left", "over"
	Agent   string  `json:"agent,omitempty"` // identity
}

type caller struct {
	number    int
	url       string
	access    lksdk.ConnectInfo
	token     string // in the place of the access, for a call whose events are printed
	room      string
	hangUp    chan struct{}
	isOver    atomic.Bool
	speech    [][]byte
	report    func(turn)
	track     *lksdk.LocalTrack
	agent     chan struct{}
	hasAgent  sync.Once
	voice     chan time.Time // the first packet of the agent's voice since it was armed
	isArmed   atomic.Bool
	lastVoice atomic.Int64 // Unix nanoseconds
}

func main() {
	url := flag.String("url", "", "LiveKit server; its key and secret: LIVEKIT_API_KEY, LIVEKIT_API_SECRET")
	file := flag.String("speech", "", "Ogg Opus file with one packet a page")
	rooms := flag.String("rooms", "calls", "prefix of the rooms' names")
	flag.Parse()
	speech, err := packets(*file)
	if err != nil {
		log.Fatalf("reading %s: %v", *file, err)
	}
	var lock sync.Mutex
	out := json.NewEncoder(os.Stdout)
	report := func(one turn) {
		lock.Lock()
		defer lock.Unlock()
		one.At = float64(time.Now().UnixNano()) / 1e9
		if err := out.Encode(one); err != nil {
			log.Fatal(err)
		}
	}
	number := 0
	calls := map[string]*caller{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 3 && words[0] == "call" {
			one := &caller{
				number: number, url: *url, room: words[1], token: words[2], speech: speech, report: report,
				agent: make(chan struct{}), voice: make(chan time.Time, 1), hangUp: make(chan struct{}),
			}
			calls[one.room] = one
			go one.run()
			number++
			continue
		}
		if len(words) == 2 && words[0] == "hang-up" && calls[words[1]] != nil {
			close(calls[words[1]].hangUp)
			delete(calls, words[1])
			continue
		}
		var more int
		if _, err := fmt.Sscanf(lines.Text(), "add %d", &more); err != nil {
			log.Fatalf("need \"add <n>\", \"call <room> <token>\" or \"hang-up <room>\", got %q", lines.Text())
		}
		for range more {
			access := lksdk.ConnectInfo{
				APIKey:              os.Getenv("LIVEKIT_API_KEY"),
				APISecret:           os.Getenv("LIVEKIT_API_SECRET"),
				RoomName:            fmt.Sprintf("%s-%d", *rooms, number),
				ParticipantIdentity: "caller",
			}
			one := &caller{
				number: number, url: *url, access: access, speech: speech, report: report,
				agent: make(chan struct{}), voice: make(chan time.Time, 1), hangUp: make(chan struct{}),
			}
			go one.run()
			number++
			time.Sleep(250 * time.Millisecond) // people do not all dial in one moment
		}
	}
}

// packets returns the Opus packets of a file.
func packets(path string) ([][]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader, _, err := oggreader.NewWith(file)
	if err != nil {
		return nil, err
	}
	var found [][]byte
	for {
		page, header, err := reader.ParseNextPage()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if header.GranulePosition > 0 { // not the page of tags
			found = append(found, page)
		}
	}
}

func (c *caller) run() {
	began := time.Now()
	room, err := c.join()
	if err == nil {
		c.track, err = lksdk.NewLocalSampleTrack(webrtc.RTPCodecCapability{
			MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2,
		})
	}
	if err == nil {
		options := &lksdk.TrackPublicationOptions{Name: "microphone", Source: 2}
		_, err = room.LocalParticipant.PublishTrack(c.track, options)
	}
	if err != nil {
		c.report(turn{Call: c.number, Room: c.room, Error: "joining: " + err.Error()})
		return
	}
	go func() {
		<-c.hangUp
		c.isOver.Store(true)
		room.Disconnect()
		c.tell("over", "")
	}()
	ticks := time.NewTicker(frame)
	defer ticks.Stop()
	for !c.quietUntil(ticks, c.agent, firstLimit) {
		c.report(turn{Call: c.number, Room: c.room, Error: "no agent came"})
		if c.token == "" {
			room.Disconnect()
			return
		}
	}
	if c.isOver.Load() {
		return
	}
	c.report(turn{Call: c.number, Joined: milliseconds(time.Since(began))})
	c.quietFor(ticks, 2*time.Second+time.Duration(rand.Int64N(int64(time.Second))))
	for !c.isOver.Load() {
		c.turn(ticks)
		c.quietFor(ticks, betweenTurns+time.Duration(rand.Int64N(int64(frame))))
	}
}

// join joins the caller's room.
func (c *caller) join() (*lksdk.Room, error) {
	callback := &lksdk.RoomCallback{
		ParticipantCallback:       lksdk.ParticipantCallback{OnTrackSubscribed: c.hear},
		OnParticipantDisconnected: func(one *lksdk.RemoteParticipant) { c.tell("left", one.Identity()) },
	}
	if c.token == "" {
		return lksdk.ConnectToRoom(c.url, c.access, callback)
	}
	return lksdk.ConnectToRoomWithToken(c.url, c.token, callback)
}

// tell reports an event of a call whose events are printed.
func (c *caller) tell(event, agent string) {
	if c.token != "" {
		c.report(turn{Call: c.number, Room: c.room, Event: event, Agent: agent})
	}
}

// turn speaks once, and waits until the agent has answered.
func (c *caller) turn(ticks *time.Ticker) {
	for _, packet := range c.speech {
		<-ticks.C
		c.send(packet)
	}
	select {
	case <-c.voice: // of a turn that had just been given up
	default:
	}
	c.isArmed.Store(true)
	said := time.Now()
	for {
		select {
		case at := <-c.voice:
			c.report(turn{Call: c.number, Latency: milliseconds(at.Sub(said))})
			for time.Since(time.Unix(0, c.lastVoice.Load())) < agentQuiet && !c.isOver.Load() {
				<-ticks.C
				c.send(silence)
			}
			return
		case <-ticks.C:
			c.send(silence)
			if time.Since(said) > answerLimit || c.isOver.Load() {
				c.isArmed.Store(false)
				if !c.isOver.Load() {
					c.report(turn{Call: c.number, Room: c.room, Error: "no answer"})
				}
				return
			}
		}
	}
}

func (c *caller) quietUntil(ticks *time.Ticker, done <-chan struct{}, limit time.Duration) bool {
	timeout := time.After(limit)
	for {
		select {
		case <-done:
			return true
		case <-c.hangUp:
			return true
		case <-timeout:
			return false
		case <-ticks.C:
			c.send(silence)
		}
	}
}

func (c *caller) quietFor(ticks *time.Ticker, length time.Duration) {
	for until := time.Now().Add(length); time.Now().Before(until); {
		<-ticks.C
		c.send(silence)
	}
}

func (c *caller) send(packet []byte) {
	err := c.track.WriteSample(media.Sample{Data: packet, Duration: frame}, nil)
	if err != nil && !c.isOver.Load() {
		c.report(turn{Call: c.number, Error: "sending: " + err.Error()})
	}
}

// hear reads the agent's packets; their size says whether there is voice in them.
func (c *caller) hear(track *webrtc.TrackRemote, _ *lksdk.RemoteTrackPublication, agent *lksdk.RemoteParticipant) {
	if track.Kind() != webrtc.RTPCodecTypeAudio {
		return
	}
	c.hasAgent.Do(func() { close(c.agent) })
	c.tell("track", agent.Identity())
	var before, spoke time.Time
	for {
		packet, _, err := track.ReadRTP()
		if err != nil {
			return
		}
		if len(packet.Payload) < voiceBytes {
			continue
		}
		now := time.Now()
		if now.Sub(before) < voiceGap {
			c.lastVoice.Store(now.UnixNano())
			if now.Sub(spoke) > agentQuiet {
				c.tell("voice", agent.Identity())
			}
			spoke = now
			if c.isArmed.CompareAndSwap(true, false) {
				c.voice <- before
			}
		}
		before = now
	}
}

func milliseconds(length time.Duration) float64 {
	return float64(length.Microseconds()) / 1000
}
